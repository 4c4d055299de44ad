/* The target stands still, and later dies, in the middle of puts: calls end in time, memory comes back with the last event
 * or with the end of the node, and no signal ends this program. `killed NID PORT TARGET-NID PROCESS`. */
#include <dirent.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define PIECES 32

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Whether every thread of a process is stopped: after SIGSTOP, some go on for a while. */
static int stands_still(pid_t process)
{
    char path[300], state = 'T';
    struct dirent *entry;
    DIR *threads;

    sprintf(path, "/proc/%ld/task", (long)process);
    CHECK((threads = opendir(path)) != NULL);
    while (state == 'T' && (entry = readdir(threads)) != NULL) {
        FILE *file;

        if (entry->d_name[0] == '.')
            continue;
        sprintf(path, "/proc/%ld/task/%s/stat", (long)process, entry->d_name);
        CHECK((file = fopen(path, "r")) != NULL);
        CHECK(fscanf(file, "%*[^)]) %c", &state) == 1);
        fclose(file);
    }
    closedir(threads);
    return state == 'T';
}

int main(int count, char **words)
{
    static char piece[FLNET_MTU];
    struct flnet_put puts[PIECES];
    struct flnet_event event;
    struct flnet_address to;
    struct flnet_md md;
    flnet_md_handle handle[PIECES];
    flnet_queue queue;
    flnet_node node;
    double begun;
    pid_t target;
    int index;

    CHECK(count == 5);
    signal(SIGPIPE, SIG_DFL);
    target = (pid_t)atol(words[4]);
    node = start(words[1], (unsigned)atoi(words[2]), FLNET_ACCEPT_NONE, FLNET_PROGRESS_THREAD);
    CHECK(flnet_queue_open(node, &queue) == 0);
    CHECK(flnet_parse_address(words[3], 10, 0, &to) == 0);
    CHECK(flnet_write(node, &to, 0, piece, sizeof piece, LIMIT) == 0);

    CHECK(kill(target, SIGSTOP) == 0);
    while (!stands_still(target))
        usleep(1000);
    begun = now();
    FAILS(flnet_send(node, &to, piece, sizeof piece, 0, 500), ETIMEDOUT);
    CHECK(now() - begun < 10);

    /* More than the sockets hold. */
    memset(&md, 0, sizeof md);
    md.start = piece;
    md.length = sizeof piece;
    md.threshold = 2;
    memset(puts, 0, sizeof puts);
    for (index = 0; index < PIECES; index++) {
        md.user = (uint64_t)index;
        CHECK(flnet_bind(queue, &md, &handle[index]) == 0);
        puts[index].md = handle[index];
        puts[index].to = to;
        puts[index].ack = 1;
    }
    CHECK(flnet_put_many(node, puts, PIECES) == PIECES);
    CHECK(kill(target, SIGKILL) == 0);
    /* Each descriptor ends; none of its messages may be lost without a word. */
    for (index = 0; index < PIECES; index++) {
        int result = flnet_unlink(node, handle[index]);
        CHECK(result == 0 || result == -ENOENT);
    }
    for (index = 0; index < PIECES;) {
        CHECK(flnet_wait(queue, &event, 1, LIMIT) == 1);
        index += event.unlinked != 0;
    }
    begun = now();
    CHECK(flnet_send(node, &to, piece, sizeof piece, 0, 500) < 0);
    CHECK(now() - begun < 10);

    /* Descriptors that are there when the node stops: their memory is the program's again. */
    md.threshold = 0;
    CHECK(flnet_bind(queue, &md, &handle[0]) == 0);
    puts[0].md = handle[0];
    CHECK(flnet_put(node, &puts[0]) == 0);
    CHECK(flnet_stop(node, 0) >= 0);
    memset(piece, 1, sizeof piece);
    CHECK(flnet_queue_close(queue) == 0);
    return 0;
}
