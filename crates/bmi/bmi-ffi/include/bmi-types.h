/*
 * The types, constants and error numbers of BMI.
 *
 * Compiles as C89 with <stdint.h>, as any later C, and as C++98 or later. For the OrangeFS dialect,
 * define BMI_DIALECT_ORANGEFS before the first inclusion and link a library that was built with the
 * feature "orangefs".
 */
#ifndef __BMI_TYPES_H
#define __BMI_TYPES_H

#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t bmi_size_t;
typedef int32_t bmi_msg_tag_t;
typedef int64_t bmi_context_id;
typedef int64_t bmi_op_id_t;
typedef int32_t bmi_error_code_t;
typedef int64_t BMI_addr_t;

/* Hints are ignored; pass a null pointer. The type is opaque. */
struct PVFS_hint_s;
typedef struct PVFS_hint_s *bmi_hint;

/*
 * Flags of BMI_initialize, combined with |.
 * BMI_INIT_SERVER         this process listens for connections
 * BMI_TCP_BIND_SPECIFIC   listen only on the host of the listen address
 * BMI_AUTO_REF_COUNT      each unexpected message adds a reference to its sender's address
 */
enum
{
    BMI_INIT_SERVER = 1,
    BMI_TCP_BIND_SPECIFIC = 2,
    BMI_AUTO_REF_COUNT = 4
};

enum bmi_op_type
{
    BMI_SEND = 1,
    BMI_RECV = 2
};

/* Where the memory of a post came from: BMI_memalloc, or elsewhere. */
enum bmi_buffer_type
{
    BMI_PRE_ALLOC = 1,
    BMI_EXT_ALLOC = 2
};

enum BMI_io_type
{
    BMI_IO_READ = 1,
    BMI_IO_WRITE = 2
};

/* The size of an address string, including its terminating zero. */
#ifdef BMI_DIALECT_ORANGEFS
#define BMI_MAX_ADDR_LEN 2048
#else
#define BMI_MAX_ADDR_LEN 256
#endif

/*
 * Options of BMI_set_info ("in", "none") and BMI_get_info ("out"). The comment gives the type to
 * which the last argument points; "none" ignores the argument.
 */
enum
{
    BMI_DROP_ADDR = 1,                  /* none: forget the address */
    BMI_CHECK_INIT = 2,                 /* none; 0, or -BMI_ENETDOWN before BMI_initialize */
    BMI_CHECK_MAXSIZE = 3,              /* out: int, longest expected message in bytes */
    BMI_GET_METH_ADDR = 4,              /* out: void *, opaque, for printing only */
    BMI_INC_ADDR_REF = 5,               /* none: add a reference */
    BMI_DEC_ADDR_REF = 6,               /* none: release a reference */
    BMI_DROP_ADDR_QUERY = 7,            /* not supported */
    BMI_FORCEFUL_CANCEL_MODE = 8,       /* none; no effect */
#ifdef USE_TRUSTED
    BMI_TRUSTED_CONNECTION = 9,
#endif
    BMI_GET_UNEXP_SIZE = 10,            /* out: int, longest unexpected message in bytes */
    BMI_TCP_BUFFER_SEND_SIZE = 11,      /* in: int, bytes; 0: chosen by the system */
    BMI_TCP_BUFFER_RECEIVE_SIZE = 12,   /* in: int, bytes; 0: chosen by the system */
    BMI_TCP_CLOSE_SOCKET = 13,          /* none: close the connection with the address */
    BMI_OPTIMISTIC_BUFFER_REG = 14,     /* in: struct bmi_optimistic_buffer_info; no effect */
    BMI_TCP_CHECK_UNEXPECTED = 15,      /* in: int; 0: see BMI_testcontext */
#ifdef BMI_DIALECT_ORANGEFS
    BMI_TRANSPORT_METHODS_STRING = 16,  /* out: char *; call free() on it */
    BMI_ZOID_POST_TIMEOUT = 116         /* in, out: int, milliseconds */
#else
    BMI_ZOID_POST_TIMEOUT = 16,         /* in, out: int, milliseconds */
    BMI_TRANSPORT_METHODS_STRING = 17,  /* out: char *; call free() on it */
    BMI_TCP_GET_PORT = 18               /* out: int */
#endif
};

struct bmi_optimistic_buffer_info
{
    const void *buffer;
    bmi_size_t len;
    enum BMI_io_type rw;
};

/*
 * Errors. The results of functions and the error codes of operations are the negated values. The
 * numbers are not those of <errno.h>.
 */
#define BMI_ERROR_BIT (1 << 30)
#define BMI_NON_ERRNO_ERROR_BIT (1 << 29)
#define BMI_NON_ERROR_BIT (BMI_NON_ERRNO_ERROR_BIT | BMI_ERROR_BIT)
#ifndef BMI_ERROR
#define BMI_ERROR (1 << 7)
#endif
#define BMIE(num) ((num) | BMI_ERROR_BIT)

#define BMI_EPERM (BMIE(1) | BMI_ERROR)
#define BMI_ENOENT (BMIE(2) | BMI_ERROR)
#define BMI_EINTR (BMIE(3) | BMI_ERROR)
#define BMI_EIO (BMIE(4) | BMI_ERROR)
#define BMI_ENXIO (BMIE(5) | BMI_ERROR)
#define BMI_EBADF (BMIE(6) | BMI_ERROR)
#define BMI_EAGAIN (BMIE(7) | BMI_ERROR)
#define BMI_ENOMEM (BMIE(8) | BMI_ERROR)
#define BMI_EFAULT (BMIE(9) | BMI_ERROR)
#define BMI_EBUSY (BMIE(10) | BMI_ERROR)
#define BMI_EEXIST (BMIE(11) | BMI_ERROR)
#define BMI_ENODEV (BMIE(12) | BMI_ERROR)
#define BMI_ENOTDIR (BMIE(13) | BMI_ERROR)
#define BMI_EISDIR (BMIE(14) | BMI_ERROR)
#define BMI_EINVAL (BMIE(15) | BMI_ERROR)
#define BMI_EMFILE (BMIE(16) | BMI_ERROR)
#define BMI_EFBIG (BMIE(17) | BMI_ERROR)
#define BMI_ENOSPC (BMIE(18) | BMI_ERROR)
#define BMI_EROFS (BMIE(19) | BMI_ERROR)
#define BMI_EMLINK (BMIE(20) | BMI_ERROR)
#define BMI_EPIPE (BMIE(21) | BMI_ERROR)
#define BMI_EDEADLK (BMIE(22) | BMI_ERROR)
#define BMI_ENAMETOOLONG (BMIE(23) | BMI_ERROR)
#define BMI_ENOLCK (BMIE(24) | BMI_ERROR)
#define BMI_ENOSYS (BMIE(25) | BMI_ERROR)
#define BMI_ENOTEMPTY (BMIE(26) | BMI_ERROR)
#define BMI_ELOOP (BMIE(27) | BMI_ERROR)
#define BMI_EWOULDBLOCK (BMIE(28) | BMI_ERROR)
#define BMI_ENOMSG (BMIE(29) | BMI_ERROR)
#define BMI_EUNATCH (BMIE(30) | BMI_ERROR)
#define BMI_EBADR (BMIE(31) | BMI_ERROR)
#define BMI_EDEADLOCK (BMIE(32) | BMI_ERROR)
#define BMI_ENODATA (BMIE(33) | BMI_ERROR)
#define BMI_ETIME (BMIE(34) | BMI_ERROR)
#define BMI_ENONET (BMIE(35) | BMI_ERROR)
#define BMI_EREMOTE (BMIE(36) | BMI_ERROR)
#define BMI_ECOMM (BMIE(37) | BMI_ERROR)
#define BMI_EPROTO (BMIE(38) | BMI_ERROR)
#define BMI_EBADMSG (BMIE(39) | BMI_ERROR)
#define BMI_EOVERFLOW (BMIE(40) | BMI_ERROR)
#define BMI_ERESTART (BMIE(41) | BMI_ERROR)
#define BMI_EMSGSIZE (BMIE(42) | BMI_ERROR)
#define BMI_EPROTOTYPE (BMIE(43) | BMI_ERROR)
#define BMI_ENOPROTOOPT (BMIE(44) | BMI_ERROR)
#define BMI_EPROTONOSUPPORT (BMIE(45) | BMI_ERROR)
#define BMI_EOPNOTSUPP (BMIE(46) | BMI_ERROR)
#define BMI_EADDRINUSE (BMIE(47) | BMI_ERROR)
#define BMI_EADDRNOTAVAIL (BMIE(48) | BMI_ERROR)
#define BMI_ENETDOWN (BMIE(49) | BMI_ERROR)
#define BMI_ENETUNREACH (BMIE(50) | BMI_ERROR)
#define BMI_ENETRESET (BMIE(51) | BMI_ERROR)
#define BMI_ENOBUFS (BMIE(52) | BMI_ERROR)
#define BMI_ETIMEDOUT (BMIE(53) | BMI_ERROR)
#define BMI_ECONNREFUSED (BMIE(54) | BMI_ERROR)
#define BMI_EHOSTDOWN (BMIE(55) | BMI_ERROR)
#define BMI_EHOSTUNREACH (BMIE(56) | BMI_ERROR)
#define BMI_EALREADY (BMIE(57) | BMI_ERROR)
#define BMI_EACCES (BMIE(58) | BMI_ERROR)
#define BMI_ECONNRESET (BMIE(59) | BMI_ERROR)

/* Errors that <errno.h> does not have. */
#define BMI_ECANCEL (1 | BMI_NON_ERROR_BIT | BMI_ERROR)
#define BMI_EDEVINIT (2 | BMI_NON_ERROR_BIT | BMI_ERROR)
#define BMI_EDETAIL (3 | BMI_NON_ERROR_BIT | BMI_ERROR)
#define BMI_EHOSTNTFD (4 | BMI_NON_ERROR_BIT | BMI_ERROR)
#define BMI_EADDRNTFD (5 | BMI_NON_ERROR_BIT | BMI_ERROR)
#define BMI_ENORECVR (6 | BMI_NON_ERROR_BIT | BMI_ERROR)
#define BMI_ETRYAGAIN (7 | BMI_NON_ERROR_BIT | BMI_ERROR)

#ifdef BMI_DIALECT_ORANGEFS
#define BMI_SUCCESS 0
#endif

/* Returns the name of an error of either sign. The library owns the string. */
const char *bmi_status_string(int error);

/*
 * Converts a number of <errno.h> to the BMI number and keeps the sign. Returns unknown numbers
 * unchanged.
 */
int bmi_errno_to_pvfs(int error);

#ifdef __cplusplus
}
#endif

#endif
