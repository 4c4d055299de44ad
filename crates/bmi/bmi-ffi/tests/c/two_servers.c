/*
 * Two processes that both listen and look each other up; each sends one byte to the other. The process in the
 * role `client` sends its own address first.
 */
#include "../../examples/common.h"

static char users[2];

/* Sends a byte to the other server and receives one from it. Both are posted before either completes. */
static void exchange(BMI_addr_t peer, char own, char expected, bmi_context_id context)
{
    bmi_op_id_t sends = 0;
    bmi_op_id_t receives = 0;
    bmi_size_t actual = 0;
    char got = 0;
    int receiving = BMI_post_recv(&receives, peer, &got, 1, &actual, BMI_EXT_ALLOC, 7, &users[0],
                                  context, NULL);
    int sending = BMI_post_send(&sends, peer, &own, 1, BMI_EXT_ALLOC, 7, &users[1], context, NULL);

    CHECK(wait_for(sending, sends, 1, &users[1], context) == 1);
    CHECK(wait_for(receiving, receives, actual, &users[0], context) == 1);
    CHECK(got == expected);
}

int main(int argc, char **argv)
{
    bmi_context_id context;
    BMI_addr_t peer;

    CHECK(argc == 3);
    if (strcmp(argv[1], "server") == 0) {
        struct BMI_unexpected_info hello;

        start_server(argv[2]);
        CHECK(BMI_open_context(&context) == 0);
        await_unexpected(&hello);
        /* The message is the other server's address. */
        CHECK(BMI_addr_lookup(&peer, (const char *)hello.buffer) == 0);
        CHECK(BMI_unexpected_free(hello.addr, hello.buffer) == 0);
        exchange(peer, 'a', 'b', context);
    } else {
        char own[64];
        bmi_op_id_t id = 0;
        int port = 0;
        int posted;

        CHECK(BMI_initialize("bmi_tcp", "tcp://127.0.0.1", BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC) == 0);
        CHECK(BMI_get_info(0, BMI_TCP_GET_PORT, &port) == 0 && port > 0);
        sprintf(own, "tcp://127.0.0.1:%d", port);
        CHECK(BMI_open_context(&context) == 0);
        CHECK(BMI_addr_lookup(&peer, argv[2]) == 0);
        posted = BMI_post_sendunexpected(&id, peer, own, (bmi_size_t)strlen(own) + 1, BMI_EXT_ALLOC, 1,
                                         &users[0], context, NULL);
        wait_for(posted, id, 0, &users[0], context);
        exchange(peer, 'b', 'a', context);
    }
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
    return 0;
}
