/*
 * The client sends an unexpected request, the server posts a receive and answers, and the client sends
 * less than the receive has room for: the receive completes once, with the bytes that arrived.
 *
 *     message_pair server tcp://127.0.0.1:0     prints the address to look up
 *     message_pair client ADDRESS
 */
#include "common.h"

#define ROOM 32000
#define SENT 15000
#define REQUEST_TAG 5
#define DATA_TAG 7

static char users[3];

static void serve(const char *address)
{
    bmi_context_id context;
    bmi_op_id_t id;
    struct BMI_unexpected_info request;
    bmi_size_t wanted = 0;
    bmi_size_t actual = 0;
    int posted;
    int index;
    char answer = 'y';
    unsigned char *room;

    start_server(address);
    CHECK(BMI_open_context(&context) == 0);
    await_unexpected(&request);
    CHECK(request.tag == REQUEST_TAG && request.size == (bmi_size_t)sizeof(wanted));
    memcpy(&wanted, request.buffer, sizeof(wanted));
    CHECK(strlen(BMI_addr_rev_lookup_unexpected(request.addr)) > 0);
    CHECK(BMI_addr_rev_lookup(request.addr) != NULL);
    CHECK(BMI_unexpected_free(request.addr, request.buffer) == 0);
    CHECK(BMI_unexpected_free(request.addr, request.buffer) == -BMI_EINVAL);

    room = (unsigned char *)BMI_memalloc(request.addr, ROOM, BMI_RECV);
    CHECK(room != NULL && wanted <= ROOM);
    posted = BMI_post_send(&id, request.addr, &answer, 1, BMI_EXT_ALLOC, REQUEST_TAG, &users[0],
                           context, NULL);
    CHECK(wait_for(posted, id, 1, &users[0], context) == 1);
    posted = BMI_post_recv(&id, request.addr, room, ROOM, &actual, BMI_PRE_ALLOC, DATA_TAG,
                           &users[1], context, NULL);
    CHECK(wait_for(posted, id, actual, &users[1], context) == SENT);
    for (index = 0; index < ROOM; index++) {
        CHECK(room[index] == (index < SENT ? (unsigned char)(index % 251) : 0));
    }
    CHECK(BMI_memfree(request.addr, room, ROOM, BMI_RECV) == 0);
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
}

static void ask(const char *address)
{
    bmi_context_id context;
    BMI_addr_t server;
    bmi_op_id_t id;
    bmi_size_t wanted = ROOM;
    bmi_size_t actual = 0;
    int posted;
    int index;
    char answer = 0;
    unsigned char *data;

    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_open_context(&context) == 0);
    CHECK(BMI_addr_lookup(&server, address) == 0);
    CHECK(strcmp(BMI_addr_rev_lookup(server), address) == 0);
    posted = BMI_post_sendunexpected(&id, server, &wanted, (bmi_size_t)sizeof(wanted),
                                     BMI_EXT_ALLOC, REQUEST_TAG, &users[0], context, NULL);
    wait_for(posted, id, (bmi_size_t)sizeof(wanted), &users[0], context);
    posted = BMI_post_recv(&id, server, &answer, 1, &actual, BMI_EXT_ALLOC, REQUEST_TAG,
                           &users[1], context, NULL);
    CHECK(wait_for(posted, id, actual, &users[1], context) == 1 && answer == 'y');

    data = (unsigned char *)BMI_memalloc(server, SENT, BMI_SEND);
    CHECK(data != NULL);
    for (index = 0; index < SENT; index++) {
        data[index] = (unsigned char)(index % 251);
    }
    posted = BMI_post_send(&id, server, data, SENT, BMI_PRE_ALLOC, DATA_TAG, &users[2], context,
                           NULL);
    CHECK(wait_for(posted, id, SENT, &users[2], context) == SENT);
    CHECK(BMI_memfree(server, data, SENT, BMI_SEND) == 0);
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0) {
        serve(argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "client") == 0) {
        ask(argv[2]);
    } else {
        fprintf(stderr, "usage: %s server|client ADDRESS\n", argv[0]);
        return 2;
    }
    return 0;
}
