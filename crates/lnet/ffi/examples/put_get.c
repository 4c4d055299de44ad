/*
 * Two nodes in one program: a message, and memory that the other node reads.
 *
 *     cc put_get.c $(pkg-config --cflags --libs finerail_lnet) && ./a.out 9988
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <finerail_lnet.h>

#define LIMIT 10000 /* milliseconds */

static int check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, flnet_error());
        exit(1);
    }
    return result;
}

static flnet_node node_on(const char *address, unsigned port)
{
    struct flnet_options options;
    char yaml[128];
    flnet_node node;

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.port = port;
    sprintf(yaml, "net:\n- net type: tcp\n  local NI(s):\n  - nid: %s@tcp\n", address);
    check(flnet_start(yaml, &options, &node), "start");
    return node;
}

int main(int count, char **words)
{
    unsigned port = count > 1 ? (unsigned)atoi(words[1]) : 9988;
    flnet_node server = node_on("127.0.0.2", port);
    flnet_node client = node_on("127.0.0.1", port);
    flnet_inbox inbox;
    flnet_queue queue;
    flnet_md_handle handle;
    struct flnet_address to;
    struct flnet_message message;
    struct flnet_match match;
    struct flnet_md md;
    char text[4096];
    static char memory[] = "memory of the server";

    /* A message: the server has an inbox on portal 10. */
    check(flnet_inbox_open(server, 10, sizeof text, &inbox), "open the inbox");
    check(flnet_parse_address("127.0.0.2@tcp", 10, 0, &to), "the address");
    check(flnet_send(client, &to, "hello", 6, 42, LIMIT), "send");
    if (check(flnet_inbox_next(inbox, &message, text, sizeof text, LIMIT), "receive") == 0) {
        fprintf(stderr, "nothing came\n");
        return 1;
    }
    printf("%s (%lu bytes, number %lu)\n", text, (unsigned long)message.length, (unsigned long)message.hdr_data);

    /*
     * Memory: the server offers it on portal 11 under match bits 7, and the client reads it. The queue would tell of each
     * read. MANAGE_REMOTE lets the reader choose the offset; TRUNCATE answers a read beyond the end with what there is.
     */
    check(flnet_queue_open(server, &queue), "open a queue");
    memset(&md, 0, sizeof md);
    md.start = memory;
    md.length = sizeof memory;
    md.options = FLNET_MD_OP_GET | FLNET_MD_MANAGE_REMOTE | FLNET_MD_TRUNCATE;
    memset(&match, 0, sizeof match);
    match.portal = 11;
    match.match_bits = 7;
    check(flnet_attach(queue, &match, &md, &handle), "offer memory");
    to.portal = 11;
    to.match_bits = 7;
    check(flnet_read(client, &to, 0, text, sizeof memory, LIMIT), "read");
    printf("%s\n", text);

    check(flnet_inbox_close(inbox), "close the inbox");
    check(flnet_stop(client, LIMIT), "stop");
    check(flnet_stop(server, LIMIT), "stop");
    check(flnet_queue_close(queue), "close the queue");
    return 0;
}
