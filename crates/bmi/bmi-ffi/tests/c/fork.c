/*
 * A child process after fork has no interface. Each of its calls is rejected, its end leaves the parent's
 * connections untouched, and it may initialise an interface of its own.
 */
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples/common.h"

static char bytes[64];

/* The child. Exits with the number of the failed line, below 256, or 0. */
static void child(BMI_addr_t peer, bmi_context_id context, bmi_op_id_t pending, int server)
{
    bmi_op_id_t id = 77;
    int outcount = 9;
    bmi_error_code_t error = 0;
    bmi_size_t actual = 0;
    struct BMI_unexpected_info info;

    CHECK(BMI_post_send(&id, peer, bytes, 8, BMI_EXT_ALLOC, 5, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_recv(&id, peer, bytes, 8, &actual, BMI_EXT_ALLOC, 5, NULL, context, NULL) ==
          -BMI_EINVAL);
    CHECK(BMI_test(pending, &outcount, &error, &actual, NULL, 1000, context) == -BMI_EINVAL);
    CHECK(outcount == 0);
    CHECK(BMI_testcontext(1, &id, &outcount, &error, &actual, NULL, 1000, context) == -BMI_EINVAL);
    CHECK(BMI_cancel(pending, context) == -BMI_EINVAL);
    if (server) {
        CHECK(BMI_testunexpected(1, &outcount, &info, 1000) == -BMI_EINVAL);
        CHECK(BMI_memalloc(peer, 64, BMI_SEND) == NULL);
    }
    CHECK(BMI_finalize() == -BMI_EINVAL);
    if (!server) {
        /* A client of its own. */
        CHECK(BMI_initialize(NULL, NULL, 0) == 0);
        CHECK(BMI_open_context(&context) == 0);
        CHECK(BMI_addr_lookup(&peer, "zoid://") == 0);
        CHECK(BMI_post_sendunexpected(&id, peer, "child", 5, BMI_EXT_ALLOC, 2, NULL, context,
                                      NULL) == 1);
        CHECK(BMI_finalize() == 0);
        CHECK(BMI_finalize() == -BMI_ENETDOWN);
    }
}

static void fork_and_wait(BMI_addr_t peer, bmi_context_id context, bmi_op_id_t pending, int server)
{
    int status = -1;
    pid_t made;

    fflush(stdout);
    made = fork();
    CHECK(made >= 0);
    if (made == 0) {
        child(peer, context, pending, server);
        exit(0);
    }
    CHECK(waitpid(made, &status, 0) == made);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void serve(const char *address)
{
    struct BMI_unexpected_info first;
    struct BMI_unexpected_info info;
    bmi_context_id context;
    bmi_op_id_t id = 0;
    bmi_size_t actual = 0;
    char *memory;
    int posted;

    start_server(address);
    CHECK(BMI_open_context(&context) == 0);
    await_unexpected(&first);
    memory = BMI_memalloc(first.addr, 64, BMI_RECV);
    CHECK(memory != NULL);
    posted = BMI_post_recv(&id, first.addr, memory, 64, &actual, BMI_PRE_ALLOC, 5, bytes, context,
                           NULL);
    CHECK(posted == 0);
    fork_and_wait(first.addr, context, id, 1);
    /*
     * The parent continues: it releases the client, receives the child's message, and then the client's
     * own.
     */
    posted = BMI_post_send(&id, first.addr, "go on", 5, BMI_EXT_ALLOC, 6, NULL, context, NULL);
    wait_for(posted, id, 5, NULL, context);
    await_unexpected(&info);
    CHECK(info.tag == 2 && info.size == 5 && memcmp(info.buffer, "child", 5) == 0);
    CHECK(info.addr != first.addr);
    CHECK(BMI_unexpected_free(info.addr, info.buffer) == 0);
    await_unexpected(&info);
    CHECK(info.tag == 3 && info.addr == first.addr);
    CHECK(BMI_unexpected_free(info.addr, info.buffer) == 0);
    CHECK(BMI_unexpected_free(first.addr, first.buffer) == 0);
    CHECK(BMI_memfree(first.addr, memory, 64, BMI_RECV) == 0);
    CHECK(BMI_finalize() == 0);
}

static void ask(const char *address)
{
    BMI_addr_t server = 0;
    bmi_context_id context;
    bmi_op_id_t pending = 0;
    bmi_op_id_t id = 0;
    bmi_size_t actual = 0;
    int posted;

    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_open_context(&context) == 0);
    CHECK(BMI_addr_lookup(&server, address) == 0);
    posted = BMI_post_sendunexpected(&id, server, "first", 5, BMI_EXT_ALLOC, 1, NULL, context, NULL);
    wait_for(posted, id, 5, NULL, context);
    posted = BMI_post_recv(&pending, server, bytes, 64, &actual, BMI_EXT_ALLOC, 6, bytes, context,
                           NULL);
    CHECK(posted >= 0);
    if (posted == 0) {
        CHECK(wait_for(posted, pending, 0, bytes, context) == 5);
    }
    CHECK(memcmp(bytes, "go on", 5) == 0);
    posted = BMI_post_recv(&pending, server, bytes, 64, &actual, BMI_EXT_ALLOC, 7, bytes, context,
                           NULL);
    CHECK(posted == 0);
    fork_and_wait(server, context, pending, 0);
    posted = BMI_post_sendunexpected(&id, server, "third", 5, BMI_EXT_ALLOC, 3, NULL, context, NULL);
    wait_for(posted, id, 5, NULL, context);
    CHECK(BMI_cancel(pending, context) == 0);
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
