/*
 * Sends messages of 1 byte to 4 MiB to the server and back. Prints the one-way latency and the
 * bandwidth of each size.
 *
 *     pingpong server tcp://127.0.0.1:0         prints the address to look up
 *     pingpong client ADDRESS [ROUNDS]
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 199309L
#endif

#include <time.h>

#include "common.h"

#define SIZE_MAX_BYTES (4 << 20)
#define PING_TAG 1
#define PONG_TAG 2

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Receives the next message into a buffer and sends it back. */
static void reflect(BMI_addr_t client, void *buffer, bmi_size_t size, bmi_context_id context)
{
    bmi_op_id_t id;
    bmi_size_t actual = 0;
    int posted;

    posted = BMI_post_recv(&id, client, buffer, size, &actual, BMI_PRE_ALLOC, PING_TAG, NULL,
                           context, NULL);
    CHECK(wait_for(posted, id, actual, NULL, context) == size);
    posted = BMI_post_send(&id, client, buffer, size, BMI_PRE_ALLOC, PONG_TAG, NULL, context,
                           NULL);
    CHECK(wait_for(posted, id, size, NULL, context) == size);
}

static void serve(const char *address)
{
    bmi_context_id context;
    struct BMI_unexpected_info hello;
    bmi_size_t size;
    int rounds;
    int round;
    void *buffer;

    start_server(address);
    CHECK(BMI_open_context(&context) == 0);
    await_unexpected(&hello);
    CHECK(hello.size == (bmi_size_t)sizeof(rounds));
    memcpy(&rounds, hello.buffer, sizeof(rounds));
    CHECK(BMI_unexpected_free(hello.addr, hello.buffer) == 0);
    buffer = BMI_memalloc(hello.addr, SIZE_MAX_BYTES, BMI_RECV);
    CHECK(buffer != NULL);
    for (size = 1; size <= SIZE_MAX_BYTES; size *= 2) {
        for (round = 0; round < rounds; round++) {
            reflect(hello.addr, buffer, size, context);
        }
    }
    CHECK(BMI_memfree(hello.addr, buffer, SIZE_MAX_BYTES, BMI_RECV) == 0);
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
}

/* Sends a message and receives it back. The receive is posted first, so that the answer finds it. */
static void bounce(BMI_addr_t server, char *out, char *in, bmi_size_t size,
                   bmi_context_id context)
{
    bmi_op_id_t in_id;
    bmi_op_id_t out_id;
    bmi_size_t actual = 0;
    int in_posted;
    int out_posted;

    in_posted = BMI_post_recv(&in_id, server, in, size, &actual, BMI_PRE_ALLOC, PONG_TAG, NULL,
                              context, NULL);
    out_posted = BMI_post_send(&out_id, server, out, size, BMI_PRE_ALLOC, PING_TAG, NULL,
                               context, NULL);
    wait_for(out_posted, out_id, size, NULL, context);
    CHECK(wait_for(in_posted, in_id, actual, NULL, context) == size);
}

static void play(const char *address, int rounds)
{
    bmi_context_id context;
    BMI_addr_t server;
    bmi_op_id_t id;
    bmi_size_t size;
    int posted;
    int round;
    char *out;
    char *in;

    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_open_context(&context) == 0);
    CHECK(BMI_addr_lookup(&server, address) == 0);
    posted = BMI_post_sendunexpected(&id, server, &rounds, (bmi_size_t)sizeof(rounds),
                                     BMI_EXT_ALLOC, 0, NULL, context, NULL);
    wait_for(posted, id, (bmi_size_t)sizeof(rounds), NULL, context);
    out = (char *)BMI_memalloc(server, SIZE_MAX_BYTES, BMI_SEND);
    in = (char *)BMI_memalloc(server, SIZE_MAX_BYTES, BMI_RECV);
    CHECK(out != NULL && in != NULL);
    printf("%10s %14s %14s\n", "bytes", "one way, us", "MB/s");
    for (size = 1; size <= SIZE_MAX_BYTES; size *= 2) {
        double seconds;
        double begin;

        memset(out, (int)(size % 127) + 1, (size_t)size);
        begin = now();
        for (round = 0; round < rounds; round++) {
            bounce(server, out, in, size, context);
        }
        seconds = (now() - begin) / (2.0 * rounds);
        CHECK(memcmp(out, in, (size_t)size) == 0);
        printf("%10ld %14.2f %14.2f\n", (long)size, 1e6 * seconds, (double)size / seconds / 1e6);
    }
    CHECK(BMI_memfree(server, out, SIZE_MAX_BYTES, BMI_SEND) == 0);
    CHECK(BMI_memfree(server, in, SIZE_MAX_BYTES, BMI_RECV) == 0);
    BMI_close_context(context);
    CHECK(BMI_finalize() == 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0) {
        serve(argv[2]);
    } else if (argc >= 3 && strcmp(argv[1], "client") == 0) {
        play(argv[2], argc > 3 ? atoi(argv[3]) : 100);
    } else {
        fprintf(stderr, "usage: %s server ADDRESS | client ADDRESS [ROUNDS]\n", argv[0]);
        return 2;
    }
    return 0;
}
