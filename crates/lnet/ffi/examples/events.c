/*
 * The full interface: descriptors, many puts in one call, and events through poll(2). The node sends to itself by its
 * own interface.
 *
 *     cc events.c $(pkg-config --cflags --libs finerail_lnet) && ./a.out 9988
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <finerail_lnet.h>

#define MESSAGES 100
#define LIMIT 10000 /* milliseconds */

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, flnet_error());
        exit(1);
    }
    return result;
}

int main(int count, char **words)
{
    static char payload[] = "one of many";
    static char place[MESSAGES * sizeof payload];
    static struct flnet_put puts[MESSAGES];
    struct flnet_event events[16];
    struct flnet_options options;
    struct flnet_match match;
    struct flnet_md md;
    struct pollfd waits;
    flnet_md_handle source, target;
    flnet_queue queue;
    flnet_node node;
    unsigned accepted = 0, arrived = 0;
    int found, index;

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.port = count > 1 ? (unsigned)atoi(words[1]) : 9988;
    check(flnet_start("net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n", &options, &node), "start");
    check(flnet_queue_open(node, &queue), "open a queue");

    /* Each message goes behind the one before, until there is room for no further one. */
    memset(&md, 0, sizeof md);
    md.start = place;
    md.length = sizeof place;
    md.options = FLNET_MD_OP_PUT;
    md.threshold = MESSAGES;
    memset(&match, 0, sizeof match);
    match.portal = 12;
    check(flnet_attach(queue, &match, &md, &target), "attach");

    /* Two operations for each message: the put and its ACK. */
    memset(&md, 0, sizeof md);
    md.start = payload;
    md.length = sizeof payload;
    md.threshold = 2 * MESSAGES;
    check(flnet_bind(queue, &md, &source), "bind");

    for (index = 0; index < MESSAGES; index++) {
        puts[index].md = source;
        puts[index].ack = 1;
        check(flnet_parse_address("127.0.0.1@tcp", 12, 0, &puts[index].to), "the address");
    }
    found = check(flnet_put_many(node, puts, MESSAGES), "put");
    printf("%d puts have begun\n", found);

    waits.fd = check(flnet_queue_fd(queue), "the descriptor of the queue");
    waits.events = POLLIN;
    while (accepted < MESSAGES || arrived < MESSAGES) {
        if (poll(&waits, 1, LIMIT) <= 0) {
            fprintf(stderr, "no event within %d ms\n", LIMIT);
            return 1;
        }
        while ((found = check(flnet_wait(queue, events, 16, 0), "wait")) > 0)
            for (index = 0; index < found; index++) {
                if (events[index].status < 0) {
                    fprintf(stderr, "%s\n", strerror(-events[index].status));
                    return 1;
                }
                accepted += events[index].kind == FLNET_EVENT_ACK;
                arrived += events[index].kind == FLNET_EVENT_PUT;
            }
    }
    printf("%u arrived, %u were acknowledged; the last one: %s\n", arrived, accepted,
           place + (MESSAGES - 1) * sizeof payload);

    check(flnet_stop(node, LIMIT), "stop");
    check(flnet_queue_close(queue), "close the queue");
    return 0;
}
