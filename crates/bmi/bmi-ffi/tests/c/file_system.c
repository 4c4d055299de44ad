/*
 * Further checks from the test programs of file systems: one message from three pieces into two, short
 * messages that arrive before and after their receives are posted, and a loop that replies to many
 * requests.
 */
#include "../../examples/common.h"

#define LIST_TAG 11
#define EAGER_TAG 12
#define READY_TAG 13
#define KIB 1024
#define PIECES_TOTAL (48 * KIB)

static char user;

static void fill(unsigned char *bytes, bmi_size_t size)
{
    bmi_size_t at;

    for (at = 0; at < size; at++) {
        bytes[at] = (unsigned char)(at % 253);
    }
}

/* One message of three pieces of 8, 16 and 24 KiB. */
static void send_list(BMI_addr_t server, bmi_context_id context)
{
    const bmi_size_t sizes[3] = {8 * KIB, 16 * KIB, 24 * KIB};
    const void *pieces[3];
    bmi_op_id_t id = 0;
    int posted;
    unsigned char *bytes = (unsigned char *)BMI_memalloc(server, PIECES_TOTAL, BMI_SEND);

    CHECK(bytes != NULL);
    fill(bytes, PIECES_TOTAL);
    pieces[0] = bytes;
    pieces[1] = bytes + 8 * KIB;
    pieces[2] = bytes + 24 * KIB;
    posted = BMI_post_send_list(&id, server, pieces, sizes, 3, PIECES_TOTAL, BMI_PRE_ALLOC, LIST_TAG,
                                &user, context, NULL);
    CHECK(wait_for(posted, id, PIECES_TOTAL, &user, context) == PIECES_TOTAL);
    CHECK(BMI_memfree(server, bytes, PIECES_TOTAL, BMI_SEND) == 0);
}

/* The same message into two halves. */
static void receive_list(BMI_addr_t client, bmi_context_id context)
{
    const bmi_size_t sizes[2] = {24 * KIB, 24 * KIB};
    void *halves[2];
    bmi_op_id_t id = 0;
    bmi_size_t actual = 0;
    int posted;
    int half;
    bmi_size_t at;

    for (half = 0; half < 2; half++) {
        halves[half] = BMI_memalloc(client, 24 * KIB, BMI_RECV);
        CHECK(halves[half] != NULL);
    }
    posted = BMI_post_recv_list(&id, client, halves, sizes, 2, PIECES_TOTAL, &actual, BMI_PRE_ALLOC,
                                LIST_TAG, &user, context, NULL);
    CHECK(wait_for(posted, id, actual, &user, context) == PIECES_TOTAL);
    for (at = 0; at < PIECES_TOTAL; at++) {
        const unsigned char *bytes = (const unsigned char *)halves[at / (24 * KIB)];

        CHECK(bytes[at % (24 * KIB)] == (unsigned char)(at % 253));
    }
    for (half = 0; half < 2; half++) {
        CHECK(BMI_memfree(client, halves[half], 24 * KIB, BMI_RECV) == 0);
    }
}

/* Receives six bytes into two places with a gap between them. */
static bmi_op_id_t post_gapped(BMI_addr_t client, char *room, bmi_size_t *actual, int *posted,
                               bmi_context_id context)
{
    static const bmi_size_t sizes[2] = {3, 3};
    void *places[2];
    bmi_op_id_t id = 0;

    places[0] = room;
    places[1] = room + 5;
    memcpy(room, "........", 9);
    *posted = BMI_post_recv_list(&id, client, places, sizes, 2, 6, actual, BMI_EXT_ALLOC, EAGER_TAG,
                                 room, context, NULL);
    return id;
}

static void receive_eager(BMI_addr_t client, bmi_context_id context)
{
    char rooms[2][9];
    bmi_size_t actuals[2] = {0, 0};
    bmi_op_id_t ids[2];
    int posted[2];
    int which;
    bmi_op_id_t id = 0;
    int outcount = 0;
    bmi_error_code_t error = 0;
    bmi_size_t actual = 0;
    int ready;
    char go = 'g';

    /* The first message may have arrived, but no receive is posted for it. */
    CHECK(BMI_testcontext(1, &id, &outcount, &error, &actual, NULL, 100, context) >= 0);
    CHECK(outcount == 0);
    for (which = 0; which < 2; which++) {
        ids[which] = post_gapped(client, rooms[which], &actuals[which], &posted[which], context);
    }
    ready = BMI_post_send(&id, client, &go, 1, BMI_EXT_ALLOC, READY_TAG, &user, context, NULL);
    CHECK(wait_for(ready, id, 1, &user, context) == 1);
    for (which = 0; which < 2; which++) {
        CHECK(wait_for(posted[which], ids[which], actuals[which], rooms[which], context) == 6);
    }
    CHECK(memcmp(rooms[0], "abc..def", 8) == 0);
    CHECK(memcmp(rooms[1], "ghi..jkl", 8) == 0);
}

static void send_eager(BMI_addr_t server, bmi_context_id context)
{
    bmi_op_id_t first = 0;
    bmi_op_id_t second = 0;
    bmi_op_id_t id = 0;
    bmi_size_t actual = 0;
    int posted_first;
    int posted_second;
    int posted;
    char go = 0;

    posted_first = BMI_post_send(&first, server, "abcdef", 6, BMI_EXT_ALLOC, EAGER_TAG, &user, context,
                                 NULL);
    posted = BMI_post_recv(&id, server, &go, 1, &actual, BMI_EXT_ALLOC, READY_TAG, &user, context,
                           NULL);
    CHECK(wait_for(posted, id, actual, &user, context) == 1 && go == 'g');
    posted_second = BMI_post_send(&second, server, "ghijkl", 6, BMI_EXT_ALLOC, EAGER_TAG, &user,
                                  context, NULL);
    CHECK(wait_for(posted_first, first, 6, &user, context) == 6);
    CHECK(wait_for(posted_second, second, 6, &user, context) == 6);
}

int main(int argc, char **argv)
{
    bmi_context_id context;

    CHECK(argc == 3);
    if (strcmp(argv[1], "server") == 0) {
        struct BMI_unexpected_info hello;

        start_server(argv[2]);
        CHECK(BMI_open_context(&context) == 0);
        await_unexpected(&hello);
        CHECK(BMI_unexpected_free(hello.addr, hello.buffer) == 0);
        receive_list(hello.addr, context);
        receive_eager(hello.addr, context);
    } else {
        BMI_addr_t server;
        bmi_op_id_t id = 0;
        int posted;

        CHECK(BMI_initialize(NULL, NULL, 0) == 0);
        CHECK(BMI_open_context(&context) == 0);
        CHECK(BMI_addr_lookup(&server, argv[2]) == 0);
        posted = BMI_post_sendunexpected(&id, server, "hi", 2, BMI_EXT_ALLOC, 1, &user, context, NULL);
        CHECK(wait_for(posted, id, 2, &user, context) == 2);
        send_list(server, context);
        send_eager(server, context);
    }
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
    return 0;
}
