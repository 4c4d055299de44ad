/*
 * The Buffered Message Interface.
 *
 * Every function that returns int returns 0, or a negated error of bmi-types.h. Posts return 1
 * when the operation is finished already: its id is then 0 and nothing is to be tested. Tests
 * return 1 when they report something. All functions may be called from any thread; only an
 * operation must not be tested by two at once.
 */
#ifndef __BMI_H
#define __BMI_H

#include <stdint.h>

#include "bmi-types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A message that nobody posted a receive for. Give its buffer back with BMI_unexpected_free. */
struct BMI_unexpected_info
{
    bmi_error_code_t error_code;
    BMI_addr_t addr;
    void *buffer;
    bmi_size_t size;
    bmi_msg_tag_t tag;
};

#ifdef BMI_DIALECT_ORANGEFS
int BMI_initialize(const char *method_list, const char *listen_addr, int flags, char *options);
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string, char *options);
#else
int BMI_initialize(const char *method_list, const char *listen_addr, int flags);
int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string);
#endif

int BMI_finalize(void);

int BMI_open_context(bmi_context_id *context_id);

void BMI_close_context(bmi_context_id context_id);

int BMI_post_send(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer, bmi_size_t size,
                  enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                  bmi_context_id context_id, bmi_hint hints);

int BMI_post_send_list(bmi_op_id_t *id, BMI_addr_t dest, const void *const *buffer_list,
                       const bmi_size_t *size_list, int list_count, bmi_size_t total_size,
                       enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                       bmi_context_id context_id, bmi_hint hints);

int BMI_post_recv(bmi_op_id_t *id, BMI_addr_t src, void *buffer, bmi_size_t expected_size,
                  bmi_size_t *actual_size, enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                  void *user_ptr, bmi_context_id context_id, bmi_hint hints);

int BMI_post_recv_list(bmi_op_id_t *id, BMI_addr_t src, void *const *buffer_list,
                       const bmi_size_t *size_list, int list_count,
                       bmi_size_t total_expected_size, bmi_size_t *total_actual_size,
                       enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag, void *user_ptr,
                       bmi_context_id context_id, bmi_hint hints);

int BMI_test(bmi_op_id_t id, int *outcount, bmi_error_code_t *error_code,
             bmi_size_t *actual_size, void **user_ptr, int max_idle_time_ms,
             bmi_context_id context_id);

int BMI_testsome(int incount, bmi_op_id_t *id_array, int *outcount, int *index_array,
                 bmi_error_code_t *error_code_array, bmi_size_t *actual_size_array,
                 void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);

int BMI_testcontext(int incount, bmi_op_id_t *out_id_array, int *outcount,
                    bmi_error_code_t *error_code_array, bmi_size_t *actual_size_array,
                    void **user_ptr_array, int max_idle_time_ms, bmi_context_id context_id);

int BMI_unexpected_free(BMI_addr_t addr, void *buffer);

void *BMI_memalloc(BMI_addr_t addr, bmi_size_t size, enum bmi_op_type send_recv);

int BMI_memfree(BMI_addr_t addr, void *buffer, bmi_size_t size, enum bmi_op_type send_recv);

int BMI_set_info(BMI_addr_t addr, int option, void *inout_parameter);

int BMI_get_info(BMI_addr_t addr, int option, void *inout_parameter);

/* The string is the library's and lives as long as the address. */
const char *BMI_addr_rev_lookup(BMI_addr_t addr);

const char *BMI_addr_rev_lookup_unexpected(BMI_addr_t addr);

int BMI_query_addr_range(BMI_addr_t addr, const char *id_string, int netmask);

int BMI_cancel(bmi_op_id_t id, bmi_context_id context_id);

/* Unexpected messages of class 0. */
int BMI_post_sendunexpected(bmi_op_id_t *id, BMI_addr_t dest, const void *buffer,
                            bmi_size_t size, enum bmi_buffer_type buffer_type,
                            bmi_msg_tag_t tag, void *user_ptr, bmi_context_id context_id,
                            bmi_hint hints);

int BMI_post_sendunexpected_list(bmi_op_id_t *id, BMI_addr_t dest,
                                 const void *const *buffer_list, const bmi_size_t *size_list,
                                 int list_count, bmi_size_t total_size,
                                 enum bmi_buffer_type buffer_type, bmi_msg_tag_t tag,
                                 void *user_ptr, bmi_context_id context_id, bmi_hint hints);

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
