/* Null pointers, wrong and closed handles, wrong values: each call answers, and says why. */
#include "check.h"

static void nids(void)
{
    struct flnet_nid nid;
    struct flnet_address address;
    char text[FLNET_NID_TEXT];

    FAILS(flnet_parse_nid(NULL, &nid), EFAULT);
    FAILS(flnet_parse_nid("10.0.0.1@tcp", NULL), EFAULT);
    FAILS(flnet_parse_nid("10.0.0.1", &nid), EINVAL);
    FAILS(flnet_parse_nid("\xff", &nid), EINVAL);
    FAILS(flnet_parse_address("10.0.0.1@tcp", 0, 2, &address), EINVAL);
    FAILS(flnet_parse_address("10.0.0.1@tcp", 64, 2, &address), EINVAL);
    FAILS(flnet_parse_address("nobody", 1, 2, &address), EINVAL);
    FAILS(flnet_parse_address("10.0.0.1@tcp", 1, 2, NULL), EFAULT);
    CHECK(flnet_parse_address("10.0.0.1@tcp3", 1, 2, &address) == 0);
    CHECK(address.target.pid == FLNET_PID_LNET && address.portal == 1 && address.match_bits == 2);
    FAILS(flnet_format_nid(NULL, text, sizeof text), EFAULT);
    FAILS(flnet_format_nid(&address.target.nid, NULL, sizeof text), EFAULT);
    FAILS(flnet_format_nid(&address.target.nid, text, 13), ENOSPC);
    CHECK(flnet_format_nid(&address.target.nid, text, 14) == 0 && strcmp(text, "10.0.0.1@tcp3") == 0);
    memset(&nid, 0, sizeof nid);
    FAILS(flnet_format_nid(&nid, text, sizeof text), EINVAL);
    nid.bytes[0] = 77;
    FAILS(flnet_format_nid(&nid, text, sizeof text), EINVAL);
}

static void starts(unsigned port)
{
    const char *good = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
    struct flnet_options options;
    flnet_node node = 77;

    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.port = port;
    FAILS(flnet_start(NULL, &options, &node), EFAULT);
    FAILS(flnet_start(good, &options, NULL), EFAULT);
    FAILS(flnet_start("net: [", &options, &node), EINVAL);
    FAILS(flnet_start("net:\n- net type: nowhere\n", &options, &node), EINVAL);
    FAILS(flnet_start("", &options, &node), EINVAL);
    FAILS(flnet_start("net:\n- net type: tcp\n  local NI(s):\n  - nid: 192.0.2.1@tcp\n", &options, &node),
          EADDRNOTAVAIL);
    FAILS(flnet_start_file(NULL, &options, &node), EFAULT);
    FAILS(flnet_start_file("/nowhere/at/all", &options, &node), ENOENT);
    FAILS(flnet_start_file("/", &options, &node), EISDIR);
    options.size = 8;
    FAILS(flnet_start(good, &options, &node), EINVAL);
    options.size = sizeof options;
    options.accept = 9;
    FAILS(flnet_start(good, &options, &node), EINVAL);
    options.accept = 0;
    options.progress = 2;
    FAILS(flnet_start(good, &options, &node), EINVAL);
    options.progress = 0;
    options.io_threads = 100000;
    FAILS(flnet_start(good, &options, &node), EINVAL);
    options.io_threads = 0;
    options.port = 70000;
    FAILS(flnet_start(good, &options, &node), EINVAL);
    CHECK(node == 77);
    options.port = port;
    CHECK(flnet_start(good, &options, &node) == 0);
    /* The port is in use now. */
    FAILS(flnet_start(good, &options, &node), EADDRINUSE);
    CHECK(flnet_stop(node, LIMIT) == 0);
}

static void handles_of_other_things(flnet_node node, flnet_queue queue, flnet_inbox inbox)
{
    struct flnet_event event;
    struct flnet_message message;
    struct flnet_md md;
    flnet_md_handle handle;
    flnet_queue other;
    flnet_node wrong[4];
    char data[64];
    size_t index;

    memset(&md, 0, sizeof md);
    wrong[0] = 0;
    wrong[1] = ~(uint64_t)0;
    wrong[2] = queue;
    wrong[3] = inbox;
    for (index = 0; index < 4; index++) {
        FAILS(flnet_stop(wrong[index], 0), EBADF);
        FAILS(flnet_nids(wrong[index], NULL, 0), EBADF);
        FAILS(flnet_queue_open(wrong[index], &other), EBADF);
        FAILS(flnet_inbox_open(wrong[index], 20, 1, &other), EBADF);
        FAILS(flnet_unlink(wrong[index], 1), EBADF);
        FAILS(flnet_cancel(wrong[index], 1), EBADF);
        FAILS(flnet_put_many(wrong[index], NULL, 0), EBADF);
    }
    wrong[2] = node;
    for (index = 0; index < 4; index++) {
        FAILS(flnet_wait(wrong[index], &event, 1, 0), EBADF);
        FAILS(flnet_queue_fd(wrong[index]), EBADF);
        FAILS(flnet_queue_close(wrong[index]), EBADF);
        FAILS(flnet_bind(wrong[index], &md, &handle), EBADF);
    }
    wrong[3] = queue;
    for (index = 0; index < 4; index++) {
        FAILS(flnet_inbox_next(wrong[index], &message, data, sizeof data, 0), EBADF);
        FAILS(flnet_inbox_close(wrong[index]), EBADF);
    }
}

static void descriptors(flnet_node node, flnet_queue queue)
{
    struct flnet_match match;
    struct flnet_event event;
    struct flnet_put put, two[2];
    struct flnet_get get;
    struct flnet_md md;
    flnet_md_handle handle;
    char data[64];

    memset(&match, 0, sizeof match);
    memset(&put, 0, sizeof put);
    memset(&get, 0, sizeof get);
    memset(&md, 0, sizeof md);
    match.portal = 30;
    md.start = data;
    md.length = sizeof data;
    FAILS(flnet_bind(queue, NULL, &handle), EFAULT);
    FAILS(flnet_bind(queue, &md, NULL), EFAULT);
    FAILS(flnet_attach(queue, NULL, &md, &handle), EFAULT);
    FAILS(flnet_attach(queue, &match, &md, &handle), EINVAL);
    md.options = FLNET_MD_OP_PUT;
    FAILS(flnet_bind(queue, &md, &handle), EINVAL);
    match.portal = 64;
    FAILS(flnet_attach(queue, &match, &md, &handle), EINVAL);
    match.portal = 0;
    FAILS(flnet_attach(queue, &match, &md, &handle), EINVAL);
    md.options = 0x8000;
    FAILS(flnet_bind(queue, &md, &handle), EINVAL);
    md.options = 0;
    md.start = NULL;
    FAILS(flnet_bind(queue, &md, &handle), EFAULT);
    md.start = data;
    md.length = FLNET_MTU + 1;
    FAILS(flnet_bind(queue, &md, &handle), EINVAL);
    md.length = (size_t)-1;
    FAILS(flnet_bind(queue, &md, &handle), EINVAL);
    md.length = sizeof data;

    FAILS(flnet_put(node, NULL), EFAULT);
    FAILS(flnet_get(node, NULL), EFAULT);
    FAILS(flnet_put(node, &put), EINVAL); /* no target */
    CHECK(flnet_parse_address("127.0.0.1@tcp", 30, 0, &put.to) == 0);
    CHECK(flnet_parse_address("127.0.0.1@tcp", 30, 0, &get.from) == 0);
    put.md = get.md = 987654321;
    FAILS(flnet_put(node, &put), ENOENT);
    FAILS(flnet_get(node, &get), ENOENT);
    FAILS(flnet_unlink(node, 987654321), ENOENT);
    FAILS(flnet_cancel(node, 987654321), ENOENT);
    FAILS(flnet_put_many(node, NULL, 1), EFAULT);
    FAILS(flnet_put_many(node, &put, (size_t)-1), EINVAL);
    CHECK(flnet_put_many(node, NULL, 0) == 0);

    /* The second of two puts is wrong: the first one begins. */
    md.threshold = 1;
    CHECK(flnet_bind(queue, &md, &handle) == 0);
    put.md = handle;
    two[0] = two[1] = put;
    two[1].md = 987654321;
    CHECK(flnet_put_many(node, two, 2) == 1);
    CHECK(strstr(flnet_error(), "operation 1") != NULL);
    CHECK(flnet_wait(queue, &event, 1, LIMIT) == 1);
    CHECK(event.kind == FLNET_EVENT_SEND && event.unlinked && event.md == handle);
    FAILS(flnet_put(node, &put), ENOENT);
    FAILS(flnet_unlink(node, handle), ENOENT);

    /* A descriptor that was unlinked is gone at once. */
    md.threshold = 0;
    CHECK(flnet_bind(queue, &md, &handle) == 0);
    CHECK(flnet_unlink(node, handle) == 0);
    FAILS(flnet_unlink(node, handle), ENOENT);
    CHECK(flnet_wait(queue, &event, 1, LIMIT) == 1);
    CHECK(event.kind == FLNET_EVENT_UNLINK && event.unlinked && event.status == 0);

    FAILS(flnet_wait(queue, NULL, 1, 0), EFAULT);
    FAILS(flnet_wait(queue, &event, 0, 0), EINVAL);
    CHECK(flnet_wait(queue, &event, 1, 0) == 0);
    CHECK(flnet_wait(queue, &event, 1, 20) == 0);
}

static void operations(flnet_node node, flnet_inbox inbox)
{
    struct flnet_address to;
    struct flnet_message message;
    struct flnet_counters counters;
    struct flnet_nid nid;
    flnet_inbox other;
    static char data[FLNET_MTU + 1];

    CHECK(flnet_parse_address("127.0.0.1@tcp", 33, 5, &to) == 0);
    FAILS(flnet_send(node, NULL, data, 1, 0, LIMIT), EFAULT);
    FAILS(flnet_send(node, &to, NULL, 1, 0, LIMIT), EFAULT);
    FAILS(flnet_send(node, &to, data, sizeof data, 0, LIMIT), EMSGSIZE);
    /* Nothing accepts it. */
    FAILS(flnet_send(node, &to, data, 1, 0, 200), ETIMEDOUT);
    FAILS(flnet_read(node, &to, 0, data, 1, 200), ETIMEDOUT);
    FAILS(flnet_read(node, &to, 0, NULL, 1, 200), EFAULT);
    FAILS(flnet_write(node, &to, 0, NULL, 1, 200), EFAULT);
    CHECK(flnet_parse_address("10.1.2.3@tcp9", 33, 5, &to) == 0);
    FAILS(flnet_send(node, &to, data, 1, 0, LIMIT), EHOSTUNREACH);

    FAILS(flnet_inbox_open(node, 0, 1, &other), EINVAL);
    FAILS(flnet_inbox_open(node, 64, 1, &other), EINVAL);
    FAILS(flnet_inbox_open(node, 34, FLNET_MTU + 1, &other), EINVAL);
    FAILS(flnet_inbox_open(node, 34, 1, NULL), EFAULT);
    FAILS(flnet_inbox_next(inbox, NULL, data, 64, 0), EFAULT);
    FAILS(flnet_inbox_next(inbox, &message, NULL, 64, 0), EFAULT);
    FAILS(flnet_inbox_next(inbox, &message, data, 63, 0), EINVAL);
    CHECK(flnet_inbox_next(inbox, &message, data, 64, 0) == 0);
    CHECK(flnet_inbox_next(inbox, &message, data, 64, 20) == 0);

    FAILS(flnet_ping(node, NULL, NULL, 0, LIMIT), EFAULT);
    CHECK(flnet_parse_nid("127.0.0.1@tcp", &nid) == 0);
    FAILS(flnet_ping(node, &nid, NULL, 1, LIMIT), EFAULT);
    CHECK(flnet_ping(node, &nid, NULL, 0, LIMIT) == 1);
    FAILS(flnet_discover(node, NULL, NULL, 0, LIMIT), EFAULT);
    CHECK(flnet_discover(node, &nid, NULL, 0, LIMIT) == 1);
    FAILS(flnet_nids(node, NULL, 1), EFAULT);
    CHECK(flnet_nids(node, NULL, 0) == 1);

    FAILS(flnet_counters(node, NULL), EFAULT);
    counters.size = 8;
    FAILS(flnet_counters(node, &counters), EINVAL);
    counters.size = sizeof counters;
    CHECK(flnet_counters(node, &counters) == 0);
    CHECK(counters.send_count > 0 && counters.size == sizeof counters);
}

int main(int count, char **words)
{
    unsigned port = count > 1 ? (unsigned)atoi(words[1]) : 9988;
    struct flnet_event event;
    struct flnet_message message;
    flnet_node node;
    flnet_queue queue;
    flnet_inbox inbox;
    char data[64];

    CHECK(strlen(flnet_error()) == 0);
    nids();
    starts(port);
    node = start("127.0.0.1@tcp", port, FLNET_ACCEPT_ALL, FLNET_PROGRESS_THREAD);
    CHECK(flnet_queue_open(node, &queue) == 0);
    FAILS(flnet_queue_open(node, NULL), EFAULT);
    CHECK(flnet_inbox_open(node, 32, sizeof data, &inbox) == 0);
    handles_of_other_things(node, queue, inbox);
    descriptors(node, queue);
    operations(node, inbox);

    CHECK(flnet_stop(node, LIMIT) == 0);
    FAILS(flnet_stop(node, LIMIT), EBADF);
    FAILS(flnet_queue_open(node, &queue), EBADF);
    FAILS(flnet_wait(queue, &event, 1, -1), ESHUTDOWN);
    FAILS(flnet_inbox_next(inbox, &message, data, sizeof data, -1), ESHUTDOWN);
    CHECK(flnet_queue_close(queue) == 0);
    FAILS(flnet_queue_close(queue), EBADF);
    FAILS(flnet_wait(queue, &event, 1, -1), EBADF);
    CHECK(flnet_inbox_close(inbox) == 0);
    FAILS(flnet_inbox_close(inbox), EBADF);
    return 0;
}
