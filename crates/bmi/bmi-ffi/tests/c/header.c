/* What a compiler can check of the headers. Also compiled as C++. */
#include <stddef.h>

#include "bmi.h"

#define HOLDS(name, condition) typedef char name[(condition) ? 1 : -1]

HOLDS(size_is_64_bits, sizeof(bmi_size_t) == 8);
HOLDS(tag_is_32_bits, sizeof(bmi_msg_tag_t) == 4);
HOLDS(context_is_64_bits, sizeof(bmi_context_id) == 8);
HOLDS(op_is_64_bits, sizeof(bmi_op_id_t) == 8);
HOLDS(error_is_32_bits, sizeof(bmi_error_code_t) == 4);
HOLDS(address_is_64_bits, sizeof(BMI_addr_t) == 8);
HOLDS(info_has_40_bytes, sizeof(struct BMI_unexpected_info) == 40);
HOLDS(info_address, offsetof(struct BMI_unexpected_info, addr) == 8);
HOLDS(info_buffer, offsetof(struct BMI_unexpected_info, buffer) == 16);
HOLDS(info_size, offsetof(struct BMI_unexpected_info, size) == 24);
HOLDS(info_tag, offsetof(struct BMI_unexpected_info, tag) == 32);
HOLDS(registration_has_24_bytes, sizeof(struct bmi_optimistic_buffer_info) == 24);
HOLDS(server_flag, BMI_INIT_SERVER == 1 && BMI_TCP_BIND_SPECIFIC == 2 && BMI_AUTO_REF_COUNT == 4);
HOLDS(op_types, BMI_SEND == 1 && BMI_RECV == 2);
HOLDS(buffer_types, BMI_PRE_ALLOC == 1 && BMI_EXT_ALLOC == 2);
HOLDS(io_types, BMI_IO_READ == 1 && BMI_IO_WRITE == 2);
HOLDS(low_options, BMI_DROP_ADDR == 1 && BMI_CHECK_INIT == 2 && BMI_CHECK_MAXSIZE == 3 &&
                   BMI_GET_METH_ADDR == 4 && BMI_INC_ADDR_REF == 5 && BMI_DEC_ADDR_REF == 6 &&
                   BMI_DROP_ADDR_QUERY == 7 && BMI_FORCEFUL_CANCEL_MODE == 8);
HOLDS(high_options, BMI_GET_UNEXP_SIZE == 10 && BMI_TCP_BUFFER_SEND_SIZE == 11 &&
                    BMI_TCP_BUFFER_RECEIVE_SIZE == 12 && BMI_TCP_CLOSE_SOCKET == 13 &&
                    BMI_OPTIMISTIC_BUFFER_REG == 14 && BMI_TCP_CHECK_UNEXPECTED == 15);
#ifdef BMI_DIALECT_ORANGEFS
HOLDS(dialect_options, BMI_TRANSPORT_METHODS_STRING == 16 && BMI_ZOID_POST_TIMEOUT == 116);
HOLDS(address_length, BMI_MAX_ADDR_LEN == 2048 && BMI_SUCCESS == 0);
#else
HOLDS(dialect_options, BMI_ZOID_POST_TIMEOUT == 16 && BMI_TRANSPORT_METHODS_STRING == 17 &&
                       BMI_TCP_GET_PORT == 18);
HOLDS(address_length, BMI_MAX_ADDR_LEN == 256);
#endif

#if BMI_EPERM != 0x40000081 || BMI_EINVAL != 0x4000008f || BMI_ECONNRESET != 0x400000bb
#error "errno-like numbers"
#endif
#if BMI_ECANCEL != 0x60000081 || BMI_ETRYAGAIN != 0x60000087 || BMI_NON_ERROR_BIT != 0x60000000
#error "other numbers"
#endif

/* Every error number is distinct. */
int kind(int error);
int kind(int error)
{
    switch (error) {
    case -BMI_EPERM:
    case -BMI_ENOENT:
    case -BMI_EINTR:
    case -BMI_EIO:
    case -BMI_ENXIO:
    case -BMI_EBADF:
    case -BMI_EAGAIN:
    case -BMI_ENOMEM:
    case -BMI_EFAULT:
    case -BMI_EBUSY:
    case -BMI_EEXIST:
    case -BMI_ENODEV:
    case -BMI_ENOTDIR:
    case -BMI_EISDIR:
    case -BMI_EINVAL:
    case -BMI_EMFILE:
    case -BMI_EFBIG:
    case -BMI_ENOSPC:
    case -BMI_EROFS:
    case -BMI_EMLINK:
    case -BMI_EPIPE:
    case -BMI_EDEADLK:
    case -BMI_ENAMETOOLONG:
    case -BMI_ENOLCK:
    case -BMI_ENOSYS:
    case -BMI_ENOTEMPTY:
    case -BMI_ELOOP:
    case -BMI_EWOULDBLOCK:
    case -BMI_ENOMSG:
    case -BMI_EUNATCH:
    case -BMI_EBADR:
    case -BMI_EDEADLOCK:
    case -BMI_ENODATA:
    case -BMI_ETIME:
    case -BMI_ENONET:
    case -BMI_EREMOTE:
    case -BMI_ECOMM:
    case -BMI_EPROTO:
    case -BMI_EBADMSG:
    case -BMI_EOVERFLOW:
    case -BMI_ERESTART:
    case -BMI_EMSGSIZE:
    case -BMI_EPROTOTYPE:
    case -BMI_ENOPROTOOPT:
    case -BMI_EPROTONOSUPPORT:
    case -BMI_EOPNOTSUPP:
    case -BMI_EADDRINUSE:
    case -BMI_EADDRNOTAVAIL:
    case -BMI_ENETDOWN:
    case -BMI_ENETUNREACH:
    case -BMI_ENETRESET:
    case -BMI_ENOBUFS:
    case -BMI_ETIMEDOUT:
    case -BMI_ECONNREFUSED:
    case -BMI_EHOSTDOWN:
    case -BMI_EHOSTUNREACH:
    case -BMI_EALREADY:
    case -BMI_EACCES:
    case -BMI_ECONNRESET:
    case -BMI_ECANCEL:
    case -BMI_EDEVINIT:
    case -BMI_EDETAIL:
    case -BMI_EHOSTNTFD:
    case -BMI_EADDRNTFD:
    case -BMI_ENORECVR:
    case -BMI_ETRYAGAIN:
        return 1;
    default:
        return 0;
    }
}

/* Code that configure scripts compile, and names used as pointers. */
typedef int (*test_unexpected)(int, int *, struct BMI_unexpected_info *, int);
int probes(void);
int probes(void)
{
    test_unexpected function = BMI_testunexpected;
    enum bmi_buffer_type buffer_type = BMI_EXT_ALLOC;
    bmi_hint hint = NULL;

#ifndef __cplusplus
    if (BMI_TCP_CHECK_UNEXPECTED) {
    }
#endif
    (void)buffer_type;
    (void)hint;
    return BMI_set_info(0, BMI_ZOID_POST_TIMEOUT, 0) + (function == NULL);
}

int main(void)
{
    return kind(0) + (kind(-BMI_EINVAL) != 1) + (probes() != -BMI_EINVAL);
}
