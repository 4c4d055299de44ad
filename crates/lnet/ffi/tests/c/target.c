/* Offers memory until its input ends or it is killed: `target NID PORT BYTES`. */
#include <unistd.h>

#include "check.h"

int main(int count, char **words)
{
    struct flnet_match match;
    struct flnet_md md;
    flnet_md_handle handle;
    flnet_queue queue;
    flnet_node node;
    char byte;

    CHECK(count == 4);
    node = start(words[1], (unsigned)atoi(words[2]), FLNET_ACCEPT_ALL, FLNET_PROGRESS_THREAD);
    CHECK(flnet_queue_open(node, &queue) == 0);
    memset(&match, 0, sizeof match);
    match.portal = 10;
    memset(&md, 0, sizeof md);
    md.length = (size_t)atol(words[3]);
    md.start = calloc(1, md.length);
    CHECK(md.start != NULL);
    md.options = FLNET_MD_OP_PUT | FLNET_MD_OP_GET | FLNET_MD_MANAGE_REMOTE | FLNET_MD_TRUNCATE;
    CHECK(flnet_attach(queue, &match, &md, &handle) == 0);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) {
    }
    CHECK(flnet_stop(node, LIMIT) >= 0);
    CHECK(flnet_queue_close(queue) == 0);
    free(md.start);
    return 0;
}
