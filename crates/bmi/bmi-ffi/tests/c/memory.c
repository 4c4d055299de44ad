/*
 * A zoid server passes wrong memory: each call is rejected, no memory is touched, and the pool is complete
 * afterwards.
 */
#include "../../examples/common.h"

#define PAGE 4096

static BMI_addr_t client;
static bmi_context_id context;

/* Posts a receive of pre-allocated memory. */
static int post(char *start, bmi_size_t size, bmi_op_id_t *id)
{
    static bmi_size_t actual;

    return BMI_post_recv(id, client, start, size, &actual, BMI_PRE_ALLOC, 9, NULL, context, NULL);
}

/* Posts a receive that must be accepted, and cancels it. */
static void may_be_posted(char *start, bmi_size_t size)
{
    bmi_op_id_t id = 0;
    int outcount = 0;
    bmi_error_code_t error = 0;
    bmi_size_t actual = 9;

    CHECK(post(start, size, &id) == 0);
    CHECK(BMI_cancel(id, context) == 0);
    while (outcount == 0) {
        CHECK(BMI_test(id, &outcount, &error, &actual, NULL, 1000, context) >= 0);
    }
    CHECK(error == -BMI_ECANCEL && actual == 0);
}

/* Allocates the whole expected region; it is one piece while nothing else is allocated. */
static char *whole_region(bmi_size_t *size)
{
    bmi_size_t step;
    char *all = NULL;

    *size = 0;
    for (step = (bmi_size_t)1 << 30; step >= PAGE; step /= 2) {
        char *more;
        if (all != NULL) {
            CHECK(BMI_memfree(client, all, *size, BMI_RECV) == 0);
        }
        more = BMI_memalloc(client, *size + step, BMI_RECV);
        if (more != NULL) {
            *size += step;
            all = more;
        } else if (*size > 0) {
            all = BMI_memalloc(client, *size, BMI_RECV);
            CHECK(all != NULL);
        }
    }
    CHECK(all != NULL);
    return all;
}

static void bounds(void)
{
    bmi_size_t size = 0;
    char *region = whole_region(&size);
    char *end = region + size;
    char on_stack[64];
    const void *starts[2];
    bmi_size_t sizes[2] = {8, 8};
    bmi_op_id_t id = 77;

    memset(on_stack, 7, sizeof(on_stack));
    /* Posts at both ends of the region are accepted. */
    may_be_posted(region, 8);
    may_be_posted(end - 8, 8);
    may_be_posted(region, size < (bmi_size_t)1 << 27 ? size : (bmi_size_t)1 << 27);
    /* One byte before the start, one after the end, and across both. */
    CHECK(post(region - 1, 1, &id) == -BMI_EINVAL);
    CHECK(post(region - 1, 8, &id) == -BMI_EINVAL);
    CHECK(post(end, 1, &id) == -BMI_EINVAL);
    CHECK(post(end - 1, 2, &id) == -BMI_EINVAL);
    CHECK(post(end - 8, 9, &id) == -BMI_EINVAL);
    CHECK(post(end - PAGE, 2 * PAGE, &id) == -BMI_EINVAL);
    CHECK(post(on_stack, 8, &id) == -BMI_EINVAL);
    CHECK(post(NULL, 8, &id) == -BMI_EFAULT);
    /* A list with one wrong part is rejected. */
    starts[0] = region;
    starts[1] = on_stack;
    CHECK(BMI_post_send_list(&id, client, starts, sizes, 2, 16, BMI_PRE_ALLOC, 9, NULL, context,
                             NULL) == -BMI_EINVAL);
    starts[1] = end - 1;
    CHECK(BMI_post_send_list(&id, client, starts, sizes, 2, 16, BMI_PRE_ALLOC, 9, NULL, context,
                             NULL) == -BMI_EINVAL);
    CHECK(id == 77);
    /* The pool is exhausted. */
    CHECK(BMI_memalloc(client, 1, BMI_RECV) == NULL);
    CHECK(BMI_memalloc(client, 0, BMI_RECV) == NULL || size > 0);
    /* Frees of memory that was not allocated. */
    CHECK(BMI_memfree(client, region + 1, size, BMI_RECV) == -BMI_EINVAL);
    CHECK(BMI_memfree(client, end, 8, BMI_RECV) == -BMI_EINVAL);
    CHECK(BMI_memfree(client, on_stack, 8, BMI_RECV) == -BMI_EINVAL);
    CHECK(BMI_memfree(client, region, size, BMI_RECV) == 0);
    CHECK(BMI_memfree(client, region, size, BMI_RECV) == -BMI_EINVAL);
    /* The region is whole again. */
    region = BMI_memalloc(client, size, BMI_RECV);
    CHECK(region != NULL && BMI_memfree(client, region, size, BMI_RECV) == 0);
    CHECK(on_stack[0] == 7 && on_stack[63] == 7);
}

/* A buffer that is freed during an operation stays valid until the operation completes. */
static void freed_while_posted(void)
{
    char *memory = BMI_memalloc(client, 64, BMI_RECV);
    bmi_op_id_t id = 0;
    int outcount = 0;
    bmi_error_code_t error = 0;
    bmi_size_t actual = 0;
    int freed;

    CHECK(memory != NULL && post(memory, 64, &id) == 0);
    freed = BMI_memfree(client, memory, 64, BMI_RECV);
    CHECK(freed == 0 || freed == -BMI_EBUSY);
    CHECK(BMI_cancel(id, context) == 0);
    while (outcount == 0) {
        CHECK(BMI_test(id, &outcount, &error, &actual, NULL, 1000, context) >= 0);
    }
    CHECK(error == -BMI_ECANCEL);
    if (freed != 0) {
        CHECK(BMI_memfree(client, memory, 64, BMI_RECV) == 0);
    }
}

static void serve(const char *address)
{
    struct BMI_unexpected_info info;
    char *memory;

    start_server(address);
    CHECK(BMI_open_context(&context) == 0);
    await_unexpected(&info);
    client = info.addr;
    /*
     * The memory of an unexpected message: an interior pointer and the other region are rejected, and it
     * is freed once.
     */
    CHECK(BMI_unexpected_free(client, NULL) == -BMI_EINVAL);
    CHECK(BMI_unexpected_free(client, (char *)info.buffer + 1) == -BMI_EINVAL);
    memory = BMI_memalloc(client, 64, BMI_SEND);
    CHECK(memory != NULL);
    CHECK(BMI_unexpected_free(client, memory) == -BMI_EINVAL);
    CHECK(BMI_memfree(client, info.buffer, 5, BMI_SEND) == -BMI_EINVAL);
    /* It is not pre-allocated memory either: that region is the plugin's. */
    {
        bmi_op_id_t id = 77;
        CHECK(post(info.buffer, 5, &id) == -BMI_EINVAL && id == 77);
    }
    CHECK(memcmp(info.buffer, "hello", 5) == 0);
    CHECK(BMI_unexpected_free(client, info.buffer) == 0);
    CHECK(BMI_unexpected_free(client, info.buffer) == -BMI_EINVAL);
    CHECK(BMI_memfree(client, memory, 64, BMI_SEND) == 0);
    CHECK(BMI_memalloc(client, -1, BMI_SEND) == NULL);
    CHECK(BMI_memalloc(client, (bmi_size_t)1 << 62, BMI_SEND) == NULL);
    bounds();
    freed_while_posted();
    bounds();
    /* The client is still served. */
    memory = BMI_memalloc(client, 8, BMI_SEND);
    CHECK(memory != NULL);
    memcpy(memory, "all well", 8);
    {
        bmi_op_id_t id = 0;
        int posted = BMI_post_send(&id, client, memory, 8, BMI_PRE_ALLOC, 1, NULL, context, NULL);
        wait_for(posted, id, 8, NULL, context);
    }
    CHECK(BMI_memfree(client, memory, 8, BMI_SEND) == 0);
    CHECK(BMI_finalize() == 0);
}

static void ask(const char *address)
{
    BMI_addr_t server = 0;
    bmi_op_id_t id = 0;
    bmi_size_t actual = 0;
    char answer[8];
    int posted;

    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_open_context(&context) == 0);
    CHECK(BMI_addr_lookup(&server, address) == 0);
    posted = BMI_post_sendunexpected(&id, server, "hello", 5, BMI_EXT_ALLOC, 0, NULL, context, NULL);
    wait_for(posted, id, 5, NULL, context);
    posted = BMI_post_recv(&id, server, answer, 8, &actual, BMI_EXT_ALLOC, 1, NULL, context, NULL);
    CHECK(wait_for(posted, id, actual, NULL, context) == 8);
    CHECK(memcmp(answer, "all well", 8) == 0);
    /* R8: a client receives no unexpected messages, so it has none to free. */
    CHECK(BMI_unexpected_free(server, answer) == -BMI_EOPNOTSUPP);
    CHECK(BMI_finalize() == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    if (strcmp(argv[1], "server") == 0) {
        serve(argv[2]);
    } else {
        ask(argv[2]);
    }
    return 0;
}
