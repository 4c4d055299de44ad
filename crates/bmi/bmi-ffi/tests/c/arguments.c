/* Invalid arguments: each is rejected with an error. */
#include <errno.h>
#include <limits.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmi.h"

#define CHECK(condition)                                                        \
    do {                                                                        \
        if (!(condition)) {                                                     \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

static char bytes[100];

/* Posts that are rejected for any peer. */
static void posts(BMI_addr_t server, bmi_context_id context)
{
    bmi_op_id_t id = 77;
    bmi_size_t actual = 0;
    const void *buffers[2];
    bmi_size_t sizes[2] = {3, 4};
    bmi_size_t negative[2] = {3, -4};

    buffers[0] = bytes;
    buffers[1] = bytes + 50;
#define SEND(id, to, buffer, size, type, context) \
    BMI_post_send(id, to, buffer, size, (enum bmi_buffer_type)(type), 1, NULL, context, NULL)
    CHECK(SEND(NULL, server, bytes, 4, BMI_EXT_ALLOC, context) == -BMI_EINVAL);
    CHECK(SEND(&id, server, bytes, -1, BMI_EXT_ALLOC, context) == -BMI_EINVAL);
    CHECK(SEND(&id, server, bytes, (1 << 27) + 1, BMI_EXT_ALLOC, context) == -BMI_EMSGSIZE);
    CHECK(SEND(&id, server, NULL, 4, BMI_EXT_ALLOC, context) == -BMI_EFAULT);
    CHECK(SEND(&id, server, bytes, 4, 0, context) == -BMI_EINVAL);
    CHECK(SEND(&id, server, bytes, 4, 3, context) == -BMI_EINVAL);
    CHECK(SEND(&id, 0, bytes, 4, BMI_EXT_ALLOC, context) == -BMI_EPROTO);
    CHECK(SEND(&id, -5, bytes, 4, BMI_EXT_ALLOC, context) == -BMI_EPROTO);
    CHECK(SEND(&id, server + 1, bytes, 4, BMI_EXT_ALLOC, context) == -BMI_EPROTO);
    CHECK(SEND(&id, server, bytes, 4, BMI_EXT_ALLOC, 0) == -BMI_EINVAL);
    CHECK(SEND(&id, server, bytes, 4, BMI_EXT_ALLOC, context + 1) == -BMI_EINVAL);
#define SEND_LIST(starts, sizes, count, total) \
    BMI_post_send_list(&id, server, starts, sizes, count, total, BMI_EXT_ALLOC, 1, NULL, context, NULL)
    CHECK(SEND_LIST(buffers, sizes, 2, 8) == -BMI_EINVAL);
    CHECK(SEND_LIST(buffers, sizes, -1, 7) == -BMI_EINVAL);
    CHECK(SEND_LIST(buffers, sizes, 0, 1) == -BMI_EINVAL);
    CHECK(SEND_LIST(NULL, sizes, 2, 7) == -BMI_EINVAL);
    CHECK(SEND_LIST(buffers, NULL, 2, 7) == -BMI_EINVAL);
    CHECK(SEND_LIST(buffers, negative, 2, -1) == -BMI_EINVAL);
    CHECK(BMI_post_recv(NULL, server, bytes, 4, &actual, BMI_EXT_ALLOC, 1, NULL, context, NULL) ==
          -BMI_EINVAL);
    CHECK(BMI_post_sendunexpected(&id, server, bytes, 8193, BMI_EXT_ALLOC, 1, NULL, context,
                                  NULL) == -BMI_EMSGSIZE);
    CHECK(id == 77);
}

static void tests(BMI_addr_t server, bmi_context_id context)
{
    bmi_op_id_t id = 0;
    bmi_op_id_t ids[3];
    int outcount = 9;
    int indices[3];
    bmi_error_code_t errors[3];
    bmi_size_t sizes[3];
    struct BMI_unexpected_info info;

    CHECK(BMI_test(0, &outcount, errors, sizes, NULL, 0, context) == -BMI_EINVAL && outcount == 0);
    CHECK(BMI_test(77, &outcount, errors, sizes, NULL, 0, context) == -BMI_EINVAL);
    CHECK(BMI_post_recv(&id, server, bytes, 4, sizes, BMI_EXT_ALLOC, 1, bytes, context, NULL) == 0);
    CHECK(BMI_test(id, NULL, errors, sizes, NULL, 0, context) == -BMI_EINVAL);
    CHECK(BMI_test(id, &outcount, NULL, sizes, NULL, 0, context) == -BMI_EINVAL);
    CHECK(BMI_test(id, &outcount, errors, NULL, NULL, -1, context) == -BMI_EINVAL);
    CHECK(BMI_test(id, &outcount, errors, NULL, NULL, 0, context + 1) == -BMI_EINVAL);
    CHECK(BMI_test(id, &outcount, errors, NULL, NULL, 0, context) == 0 && outcount == 0);
    ids[0] = 0;
    ids[1] = id;
    ids[2] = id;
    CHECK(BMI_testsome(-1, ids, &outcount, indices, errors, sizes, NULL, 0, context) ==
          -BMI_EINVAL);
    CHECK(BMI_testsome(0, NULL, &outcount, NULL, errors, sizes, NULL, INT_MAX, context) == 0);
    CHECK(BMI_testsome(1, ids, &outcount, indices, errors, sizes, NULL, INT_MAX, context) == 0);
    CHECK(BMI_testsome(3, NULL, &outcount, indices, errors, sizes, NULL, 0, context) ==
          -BMI_EINVAL);
    CHECK(BMI_cancel(id, context) == 0 && BMI_cancel(id, context) == 0);
    CHECK(BMI_testsome(3, ids, &outcount, indices, errors, sizes, NULL, INT_MAX, context) == 1);
    CHECK(outcount == 1 && indices[0] == 1 && errors[0] == -BMI_ECANCEL && sizes[0] == 0);
    CHECK(BMI_cancel(id, context) == 0 && BMI_cancel(0, context) == 0 && BMI_cancel(-3, context) == 0);
    CHECK(BMI_testcontext(-1, ids, &outcount, errors, sizes, NULL, 0, context) == -BMI_EINVAL);
    CHECK(BMI_testcontext(0, ids, &outcount, errors, sizes, NULL, INT_MAX, context) == 0);
    CHECK(BMI_testcontext(3, NULL, &outcount, errors, sizes, NULL, 0, context) == -BMI_EINVAL);
    CHECK(BMI_testcontext(3, ids, &outcount, errors, sizes, NULL, 0, 0) == -BMI_EINVAL);
    CHECK(BMI_testunexpected(-1, &outcount, &info, 0) == -BMI_EINVAL);
    CHECK(BMI_testunexpected(0, &outcount, &info, INT_MAX) == 0);
    CHECK(BMI_testunexpected(1, NULL, &info, 0) == -BMI_EINVAL);
    CHECK(BMI_testunexpected(1, &outcount, NULL, 0) == -BMI_EINVAL);
    CHECK(BMI_testunexpected_class(1, &outcount, &info, 255, 0) == 0 && outcount == 0);
}

static void memory(BMI_addr_t server)
{
    char *first;
    int size;

    CHECK(BMI_memalloc(server, -1, BMI_SEND) == NULL);
    CHECK(BMI_memalloc(server, (bmi_size_t)1 << 62, BMI_SEND) == NULL);
    CHECK(BMI_memalloc(server + 1, 8, BMI_SEND) == NULL);
    CHECK(BMI_memalloc(server, 8, (enum bmi_op_type)3) == NULL);
    for (size = 0; size < 4098; size += 683) {
        first = (char *)BMI_memalloc(server, size, BMI_RECV);
        CHECK(first != NULL && (size_t)first % 4096 == 0);
        CHECK(BMI_memfree(server, first + 1, size, BMI_RECV) == -BMI_EINVAL);
        CHECK(BMI_unexpected_free(server, first) == -BMI_EINVAL);
        CHECK(BMI_memfree(server + 1, first, size, BMI_RECV) == -BMI_EINVAL);
        CHECK(BMI_memfree(server, first, size, BMI_RECV) == 0);
        CHECK(BMI_memfree(server, first, size, BMI_RECV) == -BMI_EINVAL);
    }
    CHECK(BMI_memfree(server, bytes, 4, BMI_SEND) == -BMI_EINVAL);
    CHECK(BMI_memfree(server, NULL, 4, BMI_SEND) == 0);
    CHECK(BMI_unexpected_free(server, bytes) == -BMI_EINVAL);
    CHECK(BMI_unexpected_free(server, NULL) == -BMI_EINVAL);
}

static void options(BMI_addr_t server)
{
    int value = -5;
    char *methods = NULL;
    void *method_address = NULL;

    CHECK(BMI_set_info(0, BMI_ZOID_POST_TIMEOUT, &value) == -BMI_EINVAL);
    CHECK(BMI_set_info(0, BMI_ZOID_POST_TIMEOUT, NULL) == -BMI_EINVAL);
    value = 3600000;
    CHECK(BMI_set_info(0, BMI_ZOID_POST_TIMEOUT, &value) == 0);
    CHECK(BMI_set_info(server, BMI_TCP_CHECK_UNEXPECTED, &value) == 0);
    CHECK(BMI_set_info(0, 4711, NULL) == 0);
    CHECK(BMI_set_info(server + 1, BMI_INC_ADDR_REF, NULL) == -BMI_EINVAL);
    CHECK(BMI_set_info(server, BMI_DEC_ADDR_REF, NULL) == -BMI_EINVAL);
    CHECK(BMI_set_info(server, BMI_INC_ADDR_REF, NULL) == 0);
    CHECK(BMI_get_info(0, 4711, &value) == -BMI_ENOSYS);
    CHECK(BMI_get_info(server, BMI_DROP_ADDR_QUERY, &value) == -BMI_ENOSYS);
    CHECK(BMI_get_info(server, BMI_GET_METH_ADDR, &method_address) == 0 && method_address != NULL);
    CHECK(BMI_get_info(server, BMI_GET_METH_ADDR, NULL) == -BMI_EINVAL);
    CHECK(BMI_get_info(12345, BMI_GET_METH_ADDR, &method_address) == -BMI_EINVAL);
    CHECK(BMI_get_info(0, BMI_GET_METH_ADDR, &method_address) == -BMI_EINVAL);
    CHECK(BMI_get_info(0, BMI_GET_UNEXP_SIZE, &value) == -BMI_EINVAL);
    CHECK(BMI_get_info(server, BMI_GET_UNEXP_SIZE, &value) == 0 && value == 8192);
    CHECK(BMI_get_info(12345, BMI_CHECK_MAXSIZE, &value) == 0 && value == 1 << 27);
    CHECK(BMI_get_info(0, BMI_CHECK_MAXSIZE, NULL) == -BMI_EINVAL);
    CHECK(BMI_get_info(0, BMI_TCP_GET_PORT, &value) == 0 && value == 0);
    CHECK(BMI_get_info(0, BMI_CHECK_INIT, NULL) == 0);
    CHECK(BMI_get_info(0, BMI_TRANSPORT_METHODS_STRING, &methods) > 0);
    CHECK(strstr(methods, "tcp,") != NULL);
    free(methods);
}

static void addresses(BMI_addr_t server, const char *name)
{
    BMI_addr_t again = 0;
    char longer[300];

    CHECK(BMI_addr_lookup(&again, name) == 0 && again == server);
    CHECK(BMI_addr_lookup(NULL, name) == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&again, NULL) == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&again, "") == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&again, "tcp://\xff:1") == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&again, "gm://x") == -BMI_ENOPROTOOPT);
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    memcpy(longer, "tcp://", 6);
    CHECK(BMI_addr_lookup(&again, longer) == -BMI_ENAMETOOLONG);
    longer[255] = 0;
    CHECK(BMI_addr_lookup(&again, longer) == -BMI_EINVAL);
    CHECK(BMI_addr_rev_lookup(0) == NULL && BMI_addr_rev_lookup(server + 1) == NULL);
    CHECK(BMI_addr_rev_lookup_unexpected(-1) == NULL);
    CHECK(BMI_addr_rev_lookup_unexpected(server) != NULL);
    CHECK(BMI_query_addr_range(server, "tcp://127.0.0.0", 8) == 1);
    CHECK(BMI_query_addr_range(server, "tcp://10.0.0.0", 8) == 0);
    CHECK(BMI_query_addr_range(server, NULL, 8) == -BMI_EINVAL);
    CHECK(BMI_query_addr_range(server, "tcp://10.0.0.0", -1) == -BMI_EINVAL);
}

static void numbers(void)
{
    CHECK(bmi_errno_to_pvfs(EINVAL) == BMI_EINVAL && bmi_errno_to_pvfs(-EINVAL) == -BMI_EINVAL);
    CHECK(bmi_errno_to_pvfs(EWOULDBLOCK) == BMI_EAGAIN && bmi_errno_to_pvfs(EDEADLK) == BMI_EDEADLK);
    CHECK(bmi_errno_to_pvfs(ECOMM) == ECOMM && bmi_errno_to_pvfs(0) == 0);
    CHECK(bmi_errno_to_pvfs(INT_MIN) == INT_MIN && bmi_errno_to_pvfs(4711) == 4711);
}

static void without_interface(void)
{
    bmi_context_id context = 0;
    BMI_addr_t address = 0;
    char *methods = NULL;

    CHECK(BMI_finalize() == -BMI_ENETDOWN);
    CHECK(BMI_open_context(&context) == -BMI_ENETDOWN);
    CHECK(BMI_addr_lookup(&address, "tcp://127.0.0.1:1") == -BMI_ENETDOWN);
    CHECK(BMI_get_info(0, BMI_CHECK_INIT, NULL) == -BMI_ENETDOWN);
    CHECK(BMI_cancel(1, 1) == -BMI_ENETDOWN);
    CHECK(BMI_memalloc(1, 1, BMI_SEND) == NULL);
    BMI_close_context(1);
    CHECK(BMI_get_info(0, BMI_TRANSPORT_METHODS_STRING, &methods) > 0);
    free(methods);
    CHECK(BMI_initialize("bmi_tcp", NULL, BMI_INIT_SERVER) == -BMI_EINVAL);
    CHECK(BMI_initialize(NULL, "tcp://127.0.0.1:0", BMI_INIT_SERVER) == -BMI_EINVAL);
    CHECK(BMI_initialize(NULL, "tcp://127.0.0.1:0", 0) == -BMI_EINVAL);
    CHECK(BMI_initialize("bmi_gm", NULL, 0) == -BMI_ENOPROTOOPT);
    CHECK(BMI_initialize("bmi_tcp", "gm://x", BMI_INIT_SERVER) == -BMI_EINVAL);
}

int main(void)
{
    static const char name[] = "tcp://127.0.0.1:1";
    bmi_context_id contexts[17];
    BMI_addr_t server = 0;
    int index;
    int value = 4711;

    numbers();
    CHECK(strcmp(bmi_status_string(0), "BMI_SUCCESS") == 0);
    CHECK(strcmp(bmi_status_string(BMI_EINVAL), "BMI_EINVAL") == 0);
    CHECK(strcmp(bmi_status_string(-BMI_ECANCEL), "BMI_ECANCEL") == 0);
    CHECK(strcmp(bmi_status_string(4711), "(UNKNOWN)") == 0);
    without_interface();
    CHECK(BMI_initialize(NULL, NULL, BMI_AUTO_REF_COUNT) == 0);
    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_get_info(0, BMI_CHECK_MAXSIZE, &value) == 0 && value == 4711);
    CHECK(BMI_set_info(0, BMI_FORCEFUL_CANCEL_MODE, NULL) == -BMI_EINVAL);
    /* R17: the first initialize decides the role, until the last finalize. */
    CHECK(BMI_initialize("bmi_tcp", "tcp://127.0.0.1:0", BMI_INIT_SERVER) == 0);
    CHECK(BMI_get_info(0, BMI_TCP_GET_PORT, &value) == -BMI_ENOSYS && value == 4711);
    CHECK(BMI_finalize() == 0);
    CHECK(BMI_open_context(NULL) == -BMI_EINVAL);
    for (index = 0; index < 16; index++) {
        CHECK(BMI_open_context(&contexts[index]) == 0);
    }
    CHECK(BMI_open_context(&contexts[16]) == -BMI_EBUSY);
    CHECK(BMI_addr_lookup(&server, name) == 0 && server > 0);
    posts(server, contexts[15]);
    tests(server, contexts[15]);
    memory(server);
    options(server);
    addresses(server, name);
    BMI_close_context(contexts[3]);
    BMI_close_context(contexts[3]);
    BMI_close_context(-1);
    CHECK(BMI_finalize() == 0);
    CHECK(BMI_open_context(&contexts[3]) == 0);
    CHECK(BMI_finalize() == 0);
    without_interface();
    return 0;
}
