/*
 * Messages of all sizes in both directions while a signal arrives every 200 microseconds. The handler does
 * not restart system calls.
 */
#define _XOPEN_SOURCE 600
#include <signal.h>
#include <sys/time.h>

#include "../../examples/common.h"

#define LARGEST (1 << 20)
#define ROUNDS 300

static volatile sig_atomic_t signals;

static void count(int number)
{
    (void)number;
    signals++;
}

static void begin_storm(void)
{
    struct sigaction action;
    struct itimerval interval;

    memset(&action, 0, sizeof(action));
    action.sa_handler = count;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    memset(&interval, 0, sizeof(interval));
    interval.it_interval.tv_usec = 200;
    interval.it_value.tv_usec = 200;
    CHECK(setitimer(ITIMER_REAL, &interval, NULL) == 0);
}

static bmi_size_t size_of(int round)
{
    return round % 3 == 0 ? LARGEST - round : 1 + round * 997;
}

static void fill(unsigned char *bytes, bmi_size_t size, int round)
{
    bmi_size_t at;

    for (at = 0; at < size; at++) {
        bytes[at] = (unsigned char)(at * 7 + at / 251 + round);
    }
}

static void serve(const char *address)
{
    struct BMI_unexpected_info info;
    bmi_context_id context;
    unsigned char *memory;
    int round;

    start_server(address);
    begin_storm();
    CHECK(BMI_open_context(&context) == 0);
    await_unexpected(&info);
    memory = BMI_memalloc(info.addr, LARGEST, BMI_RECV);
    CHECK(memory != NULL);
    for (round = 0; round < ROUNDS; round++) {
        bmi_op_id_t id = 0;
        bmi_size_t actual = 0;
        int posted = BMI_post_recv(&id, info.addr, memory, LARGEST, &actual, BMI_PRE_ALLOC, round,
                                   NULL, context, NULL);
        actual = wait_for(posted, id, actual, NULL, context);
        CHECK(actual == size_of(round));
        posted = BMI_post_send(&id, info.addr, memory, actual, BMI_PRE_ALLOC, round, NULL, context,
                               NULL);
        CHECK(wait_for(posted, id, actual, NULL, context) == actual);
    }
    CHECK(BMI_memfree(info.addr, memory, LARGEST, BMI_RECV) == 0);
    CHECK(BMI_unexpected_free(info.addr, info.buffer) == 0);
    CHECK(BMI_finalize() == 0);
    CHECK(signals > 20);
}

static void ask(const char *address)
{
    static unsigned char sent[LARGEST];
    static unsigned char received[LARGEST];
    BMI_addr_t server = 0;
    bmi_context_id context;
    bmi_op_id_t id = 0;
    int round;
    int posted;

    begin_storm();
    CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    CHECK(BMI_open_context(&context) == 0);
    CHECK(BMI_addr_lookup(&server, address) == 0);
    posted = BMI_post_sendunexpected(&id, server, "hello", 5, BMI_EXT_ALLOC, 0, NULL, context, NULL);
    wait_for(posted, id, 5, NULL, context);
    for (round = 0; round < ROUNDS; round++) {
        bmi_size_t size = size_of(round);
        bmi_size_t actual = 0;
        fill(sent, size, round);
        posted = BMI_post_send(&id, server, sent, size, BMI_EXT_ALLOC, round, NULL, context, NULL);
        CHECK(wait_for(posted, id, size, NULL, context) == size);
        posted = BMI_post_recv(&id, server, received, LARGEST, &actual, BMI_EXT_ALLOC, round, NULL,
                               context, NULL);
        CHECK(wait_for(posted, id, actual, NULL, context) == size);
        CHECK(memcmp(sent, received, (size_t)size) == 0);
    }
    CHECK(BMI_finalize() == 0);
    CHECK(signals > 20);
    printf("%d signals\n", (int)signals);
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
