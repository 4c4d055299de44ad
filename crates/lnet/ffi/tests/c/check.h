/* What the test programs have in common. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <finerail_lnet.h>

#define LIMIT 30000

#define CHECK(condition)                                                                                          \
    do {                                                                                                          \
        if (!(condition)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, flnet_error());                    \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)

/* A call that fails with this errno, and says why. */
#define FAILS(call, errno_)                                                                                       \
    do {                                                                                                          \
        int result_ = (call);                                                                                     \
        if (result_ != -(errno_) || strlen(flnet_error()) < 8) {                                                  \
            fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__, __LINE__, #call, result_, flnet_error());            \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)

static flnet_node start(const char *nid, unsigned port, unsigned accept, unsigned progress)
{
    struct flnet_options options;
    char yaml[128];
    flnet_node node = 0;

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.port = port;
    options.accept = accept;
    options.progress = progress;
    sprintf(yaml, "net:\n- net type: tcp\n  local NI(s):\n  - nid: %s\n", nid);
    CHECK(flnet_start(yaml, &options, &node) == 0);
    CHECK(node != 0);
    return node;
}
