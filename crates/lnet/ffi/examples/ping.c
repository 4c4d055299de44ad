/*
 * Asks a node, of a kernel or of Finerail, for its interfaces.
 *
 *     cc ping.c $(pkg-config --cflags --libs finerail_lnet) && ./a.out node.yaml 10.0.0.1@tcp
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <finerail_lnet.h>

#define MOST 64

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
    struct flnet_interface interfaces[MOST];
    struct flnet_options options;
    struct flnet_nid target;
    char text[FLNET_NID_TEXT];
    flnet_node node;
    int found, index;

    if (count < 3) {
        fprintf(stderr, "usage: %s NODE.yaml NID [PORT]\n", words[0]);
        return 2;
    }
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.port = count > 3 ? (unsigned)atoi(words[3]) : 0;
    options.accept = FLNET_ACCEPT_NONE;
    check(flnet_start_file(words[1], &options, &node), "start");
    check(flnet_parse_nid(words[2], &target), "the NID");
    found = check(flnet_ping(node, &target, interfaces, MOST, 5000), "ping");
    for (index = 0; index < found && index < MOST; index++) {
        check(flnet_format_nid(&interfaces[index].nid, text, sizeof text), "the NID");
        printf("%s %s\n", text, interfaces[index].up ? "up" : "down");
    }
    check(flnet_stop(node, 1000), "stop");
    return 0;
}
