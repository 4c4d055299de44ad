/* A node that the waiting thread drives. */
#include "check.h"

int main(int count, char **words)
{
    unsigned port = count > 1 ? (unsigned)atoi(words[1]) : 9988;
    struct flnet_event event;
    struct flnet_match match;
    struct flnet_put put;
    struct flnet_md md;
    flnet_md_handle handle;
    flnet_queue queue;
    flnet_node node;
    char from[64], to[64];
    int puts, acks, sends;

    node = start("127.0.0.1@tcp", port, FLNET_ACCEPT_ALL, FLNET_PROGRESS_CALLER);
    CHECK(flnet_queue_open(node, &queue) == 0);
    FAILS(flnet_queue_fd(queue), EOPNOTSUPP);
    memset(from, 'x', sizeof from);
    memset(to, 0, sizeof to);
    memset(&match, 0, sizeof match);
    match.portal = 10;
    memset(&md, 0, sizeof md);
    md.start = to;
    md.length = sizeof to;
    md.options = FLNET_MD_OP_PUT;
    CHECK(flnet_attach(queue, &match, &md, &handle) == 0);
    md.start = from;
    md.options = 0;
    CHECK(flnet_bind(queue, &md, &handle) == 0);
    memset(&put, 0, sizeof put);
    put.md = handle;
    put.ack = 1;
    CHECK(flnet_parse_address("127.0.0.1@tcp", 10, 0, &put.to) == 0);
    CHECK(flnet_put(node, &put) == 0);
    for (puts = acks = sends = 0; puts + acks + sends < 3;) {
        CHECK(flnet_wait(queue, &event, 1, LIMIT) == 1);
        CHECK(event.status == 0);
        puts += event.kind == FLNET_EVENT_PUT;
        acks += event.kind == FLNET_EVENT_ACK;
        sends += event.kind == FLNET_EVENT_SEND;
    }
    CHECK(puts == 1 && acks == 1 && memcmp(from, to, sizeof to) == 0);
    CHECK(flnet_send(node, &put.to, "x", 1, 0, 300) < 0); /* the memory is full */
    CHECK(flnet_stop(node, LIMIT) >= 0);
    CHECK(flnet_queue_close(queue) == 0);
    return 0;
}
