/*
 * The Buffered Message Interface (BMI): reliable, ordered messages between processes.
 *
 * A post begins an operation: it sends or receives one message. The operation completes inside
 * the post, or a test reports its completion later. Each operation is reported once.
 *
 * Results. A function that returns int returns a negated error of bmi-types.h if the call failed;
 * a failed post has begun no operation. Otherwise a post returns
 *   0  the operation is pending; *id names it until a test reports its completion;
 *   1  the operation has completed; *id is 0, and no test will report it.
 * A test returns 1 if it reports something, else 0. Other functions return 0, unless their comment
 * says otherwise. The error code of a reported operation is 0 or a negated error.
 *
 * Memory. The buffers of an operation, and the arrays of a list, must stay valid until the
 * operation has completed. A completed send says that the buffer may be used again, not that the
 * peer has received the message.
 *
 * Threads. Any thread may call any function at any time, with one exception: two threads must not
 * test the same operation at once. After fork() the child must call BMI_initialize before it uses
 * the interface.
 *
 * Hints are ignored; pass a null pointer.
 */
#ifndef __BMI_H
#define __BMI_H

#include <stdint.h>

#include "bmi-types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A received unexpected message: its sender, its bytes and its tag. error_code is 0. Free the
 * buffer with BMI_unexpected_free.
 */
struct BMI_unexpected_info
{
    bmi_error_code_t error_code;
    BMI_addr_t addr;
    void *buffer;
    bmi_size_t size;
    bmi_msg_tag_t tag;
};

/*
 * BMI_initialize starts the interface. Every further call only adds a reference.
 *
 * method_list: method names separated by commas, such as "bmi_tcp,bmi_zoid". A client may pass
 * NULL: each method then starts when the first address with its scheme is looked up.
 * listen_addr: NULL for a client; for a server one address per method, separated by commas.
 * flags: 0 for a client; BMI_INIT_SERVER for a server, combined with other flags.
 * options: ignored.
 *
 * BMI_addr_lookup returns the address of a string such as "tcp://host:3334" or "zoid://". The same
 * string always yields the same address.
 */
#ifdef BMI_DIALECT_ORANGEFS
int BMI_initialize(const char *method_list, const char *listen_addr, int flags, char *options);
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string, char *options);
#else
int BMI_initialize(const char *method_list, const char *listen_addr, int flags);
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string);
#endif

/*
 * Releases a reference; the last one shuts the interface down. Sleeping tests in other threads then
 * return -BMI_ENETDOWN, and pending operations are forgotten.
 */
int BMI_finalize(void);

/*
 * Opens a context: a set of operations that BMI_testcontext tests together. An operation is reported in its
 * own context only, with every method. At most 16 are open.
 */
int BMI_open_context(bmi_context_id *context_id);

/* Closes a context. Its operations continue and can be tested by their ids. */
void BMI_close_context(bmi_context_id context_id);

/* Sends a message, which a receive of the same tag at dest matches. */
int BMI_post_send(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                  enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                  bmi_context_id context_id, bmi_hint hints);

/* Sends several buffers as one message. total_size is the sum of the sizes. */
int BMI_post_send_list(bmi_op_id_t *id, BMI_addr_t dest, const void *const *buffer_list,
                       const bmi_size_t *size_list, int list_count, bmi_size_t total_size,
                       enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                       bmi_context_id context_id, bmi_hint hints);

/*
 * Receives a message of at most expected_size bytes that src sends with the same tag. If the
 * operation completes inside the post, *actual_size is the number of bytes received.
 */
int BMI_post_recv(bmi_op_id_t *id, BMI_addr_t src, void *buffer, bmi_size_t expected_size,
                  bmi_size_t *actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                  void *user_ptr, bmi_context_id context_id, bmi_hint hints);

/* Receives one message into several buffers. total_expected_size is the sum of the sizes. */
int BMI_post_recv_list(bmi_op_id_t *id, BMI_addr_t src, void *const *buffer_list,
                       const bmi_size_t *size_list, int list_count,
                       bmi_size_t total_expected_size, bmi_size_t *total_actual_size,
                       enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                       bmi_context_id context_id, bmi_hint hints);

/*
 * The tests wait at most max_idle_time_ms milliseconds for a completion; 0 checks once. The
 * pointers for sizes and user pointers may be NULL.
 *
 * BMI_test tests one operation.
 */
int BMI_test(bmi_op_id_t id, int *outcount, bmi_error_code_t *error_code,
             bmi_size_t *actual_size, void **user_ptr, int max_idle_time_ms,
             bmi_context_id context_id);

/*
 * Tests the operations of id_array; ids of 0 are skipped. The n-th result belongs to the operation
 * at index_array[n] of id_array.
 */
int BMI_testsome(int incount, bmi_op_id_t *id_array, int *outcount, int *index_array,
                 bmi_error_code_t *error_code_array, bmi_size_t *actual_size_array,
                 void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);

/*
 * Reports at most incount completed operations of a context, in the order of completion. Returns 0
 * early if an unexpected message waits, unless BMI_TCP_CHECK_UNEXPECTED is set to 0.
 */
int BMI_testcontext(int incount, bmi_op_id_t *out_id_array, int *outcount,
                    bmi_error_code_t *error_code_array, bmi_size_t *actual_size_array,
                    void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);

/* Frees the buffer of an unexpected message from addr. */
int BMI_unexpected_free(BMI_addr_t addr, void *buffer);

/*
 * Allocates zeroed memory for messages with addr, to be posted as BMI_PRE_ALLOC. The method then
 * need not copy. Returns NULL if there is no such address or no memory.
 */
void *BMI_memalloc(BMI_addr_t addr, bmi_size_t size, enum bmi_op_type send_recv);

/* Frees memory of BMI_memalloc. Memory in use by an operation stays valid until it completes. */
int BMI_memfree(BMI_addr_t addr, void *buffer, bmi_size_t size, enum bmi_op_type send_recv);

/*
 * Sets an option of an address, or of all active methods if addr is 0. bmi-types.h lists the
 * options and the types of their parameters.
 */
int BMI_set_info(BMI_addr_t addr, int option, void *inout_parameter);

/*
 * Writes a property of an address, or of all methods if addr is 0. With
 * BMI_TRANSPORT_METHODS_STRING returns the number of methods.
 */
int BMI_get_info(BMI_addr_t addr, int option, void *inout_parameter);

/*
 * Returns the string that an address was looked up as, empty if it was learnt from an unexpected
 * message, NULL if there is no such address. The library owns the string; it is valid as long as
 * the address.
 */
const char *BMI_addr_rev_lookup(BMI_addr_t addr);

/* Returns a printable name of any address, with the ownership of BMI_addr_rev_lookup. */
const char *BMI_addr_rev_lookup_unexpected(BMI_addr_t addr);

/* Returns 1 if the first netmask bits of an address equal those of id_string, else 0. */
int BMI_query_addr_range(BMI_addr_t addr, const char *id_string, int netmask);

/*
 * Requests the cancellation of an operation. A test must still collect it; its error code is
 * -BMI_ECANCEL, or its own result if it completed first. An unknown id is ignored.
 */
int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id);

/*
 * Unexpected messages need no posted receive: the receiver collects them with BMI_testunexpected,
 * by class. The functions without a class use class 0. BMI_get_info with BMI_GET_UNEXP_SIZE says
 * how long such a message may be.
 */
int BMI_post_sendunexpected(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer,
                            bmi_size_t size, enum bmi_buffer_type buffer_type,
                            bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id,
                            bmi_hint hints);

int BMI_post_sendunexpected_list(bmi_op_id_t *id, BMI_addr_t dest,
                                 const void *const *buffer_list, const bmi_size_t *size_list,
                                 int list_count, bmi_size_t total_size,
                                 enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                                 void *user_ptr, bmi_context_id context_id, bmi_hint hints);

/* Reports at most incount unexpected messages, in the order in which each sender posted them. */
int BMI_testunexpected(int incount, int *outcount, struct BMI_unexpected_info *info_array,
                       int max_idle_time_ms);

#ifndef BMI_DIALECT_ORANGEFS
int BMI_post_sendunexpected_class(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer,
                                  bmi_size_t size, enum bmi_buffer_type buffer_type,
                                  bmi_msg_tag_t tag, uint8_t msg_class, void *user_ptr,
                                  bmi_context_id context_id, bmi_hint hints);

int BMI_post_sendunexpected_list_class(bmi_op_id_t *id, BMI_addr_t dest,
                                       const void *const *buffer_list,
                                       const bmi_size_t *size_list, int list_count,
                                       bmi_size_t total_size,
                                       enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                                       uint8_t msg_class, void *user_ptr,
                                       bmi_context_id context_id, bmi_hint hints);

int BMI_testunexpected_class(int incount, int *outcount, struct BMI_unexpected_info *info_array,
                             uint8_t msg_class, int max_idle_time_ms);

#define BMI_post_sendunexpected(id, dest, buffer, size, type, tag, user_ptr, context, hints) \
    BMI_post_sendunexpected_class(id, dest, buffer, size, type, tag, 0, user_ptr, context, hints)

#define BMI_post_sendunexpected_list(id, dest, buffers, sizes, count, total, type, tag, user_ptr, \
                                     context, hints) \
    BMI_post_sendunexpected_list_class(id, dest, buffers, sizes, count, total, type, tag, 0, \
                                       user_ptr, context, hints)

#define BMI_testunexpected(incount, outcount, info_array, max_idle_time_ms) \
    BMI_testunexpected_class(incount, outcount, info_array, 0, max_idle_time_ms)
#endif

#ifdef __cplusplus
}
#endif

#endif
