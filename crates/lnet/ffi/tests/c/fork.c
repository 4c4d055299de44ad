/* A child that fork() made has no node of its parent, and may start its own, also while another thread of the parent was
 * in the middle of calls. */
#include <pthread.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static flnet_node node;
static volatile int over;

/* Keeps the locks of the library busy. */
static void *make_handles(void *unused)
{
    flnet_queue queue;

    while (!over) {
        CHECK(flnet_queue_open(node, &queue) == 0);
        CHECK(flnet_queue_close(queue) == 0);
    }
    return unused;
}

static void child(unsigned port, flnet_queue queue, const struct flnet_address *to)
{
    struct flnet_event event;
    flnet_queue own_queue;
    flnet_node own;

    FAILS(flnet_nids(node, NULL, 0), EBADF);
    FAILS(flnet_wait(queue, &event, 1, -1), EBADF);
    FAILS(flnet_send(node, to, "no", 2, 0, LIMIT), EBADF);
    FAILS(flnet_stop(node, 0), EBADF);
    own = start("127.0.0.3@tcp", port, FLNET_ACCEPT_ALL, FLNET_PROGRESS_THREAD);
    CHECK(own != node);
    CHECK(flnet_queue_open(own, &own_queue) == 0);
    FAILS(flnet_queue_close(queue), EBADF);
    CHECK(flnet_send(own, to, "child", 6, 0, LIMIT) == 0);
    CHECK(flnet_stop(own, LIMIT) == 0);
}

int main(int count, char **words)
{
    unsigned port = count > 1 ? (unsigned)atoi(words[1]) : 9988;
    struct flnet_message message;
    struct flnet_address to;
    flnet_inbox inbox;
    flnet_queue queue;
    pthread_t thread;
    char data[64];
    int round, status;
    pid_t process;

    node = start("127.0.0.1@tcp", port, FLNET_ACCEPT_ALL, FLNET_PROGRESS_THREAD);
    CHECK(flnet_inbox_open(node, 10, sizeof data, &inbox) == 0);
    CHECK(flnet_queue_open(node, &queue) == 0);
    CHECK(flnet_parse_address("127.0.0.1@tcp", 10, 0, &to) == 0);
    CHECK(pthread_create(&thread, NULL, make_handles, NULL) == 0);
    for (round = 0; round < 5; round++) {
        process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            alarm(LIMIT / 1000);
            child(port, queue, &to);
            _exit(0);
        }
        CHECK(flnet_inbox_next(inbox, &message, data, sizeof data, LIMIT) == 1);
        CHECK(strcmp(data, "child") == 0);
        CHECK(waitpid(process, &status, 0) == process);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(flnet_send(node, &to, "still", 6, 0, LIMIT) == 0);
    CHECK(flnet_inbox_close(inbox) == 0);
    CHECK(flnet_stop(node, LIMIT) == 0);
    CHECK(flnet_queue_close(queue) == 0);
    return 0;
}
