/* Calls from several threads: each message arrives once; closing what others wait on ends their waits; signals go to the
 * threads of the program. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"

#define THREADS 4
#define MESSAGES 200

static flnet_node node;
static flnet_queue queue;
static flnet_inbox inbox;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned seen[THREADS][MESSAGES];
static pthread_t main_thread;
static volatile sig_atomic_t handled_elsewhere, handled;

static void *sender(void *number)
{
    struct flnet_address to;
    unsigned index;

    CHECK(flnet_parse_address("127.0.0.1@tcp", 10, 0, &to) == 0);
    for (index = 0; index < MESSAGES; index++)
        CHECK(flnet_send(node, &to, &index, sizeof index, (uint64_t)(size_t)number, LIMIT) == 0);
    return NULL;
}

static void *receiver(void *unused)
{
    struct flnet_event events[7];
    int found, index;

    while ((found = flnet_wait(queue, events, 7, LIMIT)) > 0)
        for (index = 0; index < found; index++)
            if (events[index].kind == FLNET_EVENT_PUT) {
                pthread_mutex_lock(&mutex);
                seen[events[index].hdr_data][events[index].offset / 4 % MESSAGES]++;
                pthread_mutex_unlock(&mutex);
            }
    CHECK(found == -EBADF || found == -ESHUTDOWN);
    return unused;
}

static void *wait_for_message(void *unused)
{
    struct flnet_message message;
    char data[8];
    int result;

    /* The other thread looks, too. */
    do {
        result = flnet_inbox_next(inbox, &message, data, sizeof data, -1);
    } while (result == -EBUSY);
    CHECK(result == -ESHUTDOWN || result == -EBADF);
    return unused;
}

static void handler(int number)
{
    (void)number;
    handled = 1;
    if (!pthread_equal(pthread_self(), main_thread))
        handled_elsewhere = 1;
}

int main(int count, char **words)
{
    unsigned port = count > 1 ? (unsigned)atoi(words[1]) : 9988;
    static char memory[THREADS * MESSAGES * 4];
    pthread_t senders[THREADS], receivers[2], waiter;
    struct flnet_message message;
    struct flnet_match match;
    struct flnet_md md;
    flnet_md_handle handle;
    char data[8];
    size_t index, other;
    unsigned total = 0;
    int result;

    main_thread = pthread_self();
    node = start("127.0.0.1@tcp", port, FLNET_ACCEPT_ALL, FLNET_PROGRESS_THREAD);
    signal(SIGUSR1, handler);
    for (index = 0; index < 50; index++)
        CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(handled && !handled_elsewhere);

    CHECK(flnet_queue_open(node, &queue) == 0);
    memset(&match, 0, sizeof match);
    match.portal = 10;
    memset(&md, 0, sizeof md);
    md.start = memory;
    md.length = sizeof memory;
    md.options = FLNET_MD_OP_PUT;
    CHECK(flnet_attach(queue, &match, &md, &handle) == 0);
    for (index = 0; index < 2; index++)
        CHECK(pthread_create(&receivers[index], NULL, receiver, NULL) == 0);
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_create(&senders[index], NULL, sender, (void *)index) == 0);
    for (index = 0; index < THREADS; index++)
        CHECK(pthread_join(senders[index], NULL) == 0);
    /* The last events may still be under way to the receivers: wait until all were seen. */
    for (index = 0; total < THREADS * MESSAGES && index < 1000; index++) {
        pthread_mutex_lock(&mutex);
        for (total = 0, other = 0; other < THREADS * MESSAGES; other++)
            total += seen[other / MESSAGES][other % MESSAGES];
        pthread_mutex_unlock(&mutex);
        usleep(10000);
    }
    CHECK(total == THREADS * MESSAGES);
    CHECK(flnet_queue_close(queue) == 0);
    for (index = 0; index < 2; index++)
        CHECK(pthread_join(receivers[index], NULL) == 0);

    /* One thread waits for messages of an inbox; a second one is told so, and closing ends the wait. */
    CHECK(flnet_inbox_open(node, 11, sizeof data, &inbox) == 0);
    CHECK(pthread_create(&waiter, NULL, wait_for_message, NULL) == 0);
    do {
        result = flnet_inbox_next(inbox, &message, data, sizeof data, 0);
    } while (result == 0);
    CHECK(result == -EBUSY);
    CHECK(flnet_inbox_close(inbox) == 0);
    CHECK(pthread_join(waiter, NULL) == 0);

    /* Stopping the node ends waits, too. */
    CHECK(flnet_queue_open(node, &queue) == 0);
    CHECK(pthread_create(&receivers[0], NULL, receiver, NULL) == 0);
    CHECK(flnet_stop(node, LIMIT) >= 0);
    CHECK(pthread_join(receivers[0], NULL) == 0);
    CHECK(flnet_queue_close(queue) == 0);
    return 0;
}
