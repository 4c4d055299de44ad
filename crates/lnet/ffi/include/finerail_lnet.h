/*
 * Put and Get over LNet, for C and C++: a node inside the program, without kernel module.
 *
 *     flnet_node node;                        a node speaks under its NIDs
 *     flnet_start("net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n", NULL, &node);
 *     flnet_send(node, &address, "hello", 5, 0, 5000);
 *     flnet_stop(node, 1000);
 *
 * Functions return 0 or a number when they succeed, and the negative errno of what went wrong otherwise;
 * flnet_error() then has a text that says what to do. Handles are numbers: a wrong, stale or closed one is
 * answered with -EBADF. Any thread may call any function. A null pointer is answered with -EFAULT unless its
 * description allows it. After fork() the child has no node: the parent's handles are answered with -EBADF, and the
 * child may start nodes of its own. The sockets of the parent stay open in the child until it ends or calls exec().
 *
 * Times are milliseconds; a negative time waits without limit. Numbers are in the byte order of the machine.
 */
#ifndef FINERAIL_LNET_H
#define FINERAIL_LNET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Programs that were built with an older minor version work. */
#define FLNET_VERSION_MAJOR 0
#define FLNET_VERSION_MINOR 1

/* The process id of LNet nodes, and the id that stands for every process. */
#define FLNET_PID_LNET 12345u
#define FLNET_PID_ANY 0xffffffffu

/* The most bytes of a message. flnet_write and flnet_read take more, and use several messages. */
#define FLNET_MTU 1048576u

/* The room that the text of a NID needs, with its zero byte. */
#define FLNET_NID_TEXT 64

/* Handles. 0 is never one. */
typedef uint64_t flnet_node;
typedef uint64_t flnet_queue;
typedef uint64_t flnet_inbox;
/* A memory descriptor, unique within its node. */
typedef uint64_t flnet_md_handle;

/* A NID in the form that LNet has on the wire; all zero where none is meant. */
struct flnet_nid {
    uint8_t bytes[20];
};

/* A process: a NID and a process id. */
struct flnet_id {
    struct flnet_nid nid;
    uint32_t pid;
};

/* Where an operation goes: a process, a portal from 1 to 63, and match bits. */
struct flnet_address {
    struct flnet_id target;
    uint32_t portal;
    uint64_t match_bits;
};

/* ---- NIDs ---- */

/* Reads a NID such as "10.0.0.1@tcp". */
int flnet_parse_nid(const char *text, struct flnet_nid *nid);

/* Writes the text of a NID, with its zero byte, into `size` bytes. -ENOSPC if they are too few. */
int flnet_format_nid(const struct flnet_nid *nid, char *text, size_t size);

/*
 * Makes the address of a node from the text of its NID; the process id is LNet's. Programs have the portals 1 to 63, any
 * other is answered with -EINVAL.
 */
int flnet_parse_address(const char *nid, uint32_t portal, uint64_t match_bits, struct flnet_address *address);

/* ---- Nodes ---- */

/* Which source ports may connect. */
enum flnet_accept {
    FLNET_ACCEPT_DEFAULT = 0, /* FLNET_ACCEPT_SECURE if the port is privileged, else FLNET_ACCEPT_ALL */
    FLNET_ACCEPT_SECURE = 1,  /* those that need a privilege, below 1024 */
    FLNET_ACCEPT_ALL = 2,
    FLNET_ACCEPT_NONE = 3     /* the node does not listen */
};

/* Who drives the node's sockets. */
enum flnet_progress {
    FLNET_PROGRESS_THREAD = 0, /* a thread of the node: it answers at all times */
    FLNET_PROGRESS_CALLER = 1  /* the thread that waits: saves a hand-over between threads, but the node answers only while
                                  a thread waits, and flnet_queue_fd is not there */
};

/* What the document does not say. Set all to zero, then `size` and what differs. */
struct flnet_options {
    size_t size;         /* sizeof(struct flnet_options) */
    uint32_t port;       /* TCP port to listen on and to dial; 0 is 988, LNet's, which needs root */
    uint32_t accept;     /* enum flnet_accept */
    uint32_t io_threads; /* threads that move bytes; 0 is 1 */
    uint32_t spin_us;    /* microseconds that the node polls for work before it sleeps */
    uint32_t progress;   /* enum flnet_progress */
};

/*
 * Starts a node that this YAML document configures, as lnetctl exports it: nets, routes, peers, parameters, rules.
 * `options` may be null.
 */
int flnet_start(const char *yaml, const struct flnet_options *options, flnet_node *node);

/* Starts a node that a file configures. */
int flnet_start_file(const char *path, const struct flnet_options *options, flnet_node *node);

/*
 * Stops a node: waits at most so long until nothing is under way, then ends what is. Memory of descriptors belongs to
 * the program when the call returns. Queues and inboxes of the node stay until they are closed; what is in a queue can
 * be taken. Returns 1 if something was under way, else 0.
 */
int flnet_stop(flnet_node node, int grace);

/* Writes at most `count` NIDs of the node, its primary NID first. Returns how many it has. */
int flnet_nids(flnet_node node, struct flnet_nid *nids, size_t count);

/* ---- Whole operations: each call returns when the operation has ended ---- */

/*
 * Sends one message of at most FLNET_MTU bytes to an inbox, or to another match entry, and waits until it is there.
 * `hdr_data` travels with the message. The call fails with -ETIMEDOUT once nothing has happened for `timeout`
 * milliseconds: no part of the operation has ended. -EIO if the target took fewer bytes: what it took has arrived.
 */
int flnet_send(flnet_node node, const struct flnet_address *to, const void *data, size_t length, uint64_t hdr_data,
               int timeout);

/*
 * Writes any number of bytes into memory that the target offers, from this offset on. The memory must have been attached
 * with FLNET_MD_OP_PUT and FLNET_MD_MANAGE_REMOTE; without the latter, the target ignores the offset, and each write goes
 * behind the one before. `timeout` and -EIO are those of flnet_send.
 */
int flnet_write(flnet_node node, const struct flnet_address *to, uint32_t offset, const void *data, size_t length,
                int timeout);

/*
 * Reads any number of bytes of memory that the target offers, from this offset on. The memory must have been attached
 * with FLNET_MD_OP_GET and FLNET_MD_MANAGE_REMOTE; without the latter, the target ignores the offset, and each read goes
 * on behind the one before. -EIO if the target has fewer bytes: `data` is then as it was. `timeout` is that of flnet_send.
 */
int flnet_read(flnet_node node, const struct flnet_address *from, uint32_t offset, void *data, size_t length,
               int timeout);

/* A message that an inbox received. */
struct flnet_message {
    struct flnet_id from;
    uint64_t match_bits;
    uint64_t hdr_data;
    size_t length; /* bytes that the sender sent; those beyond the inbox's size are not there, and the sender was told */
};

/*
 * Opens an inbox on a portal, which takes messages with any match bits, each in a buffer of `size` bytes. Of two inboxes of
 * a portal, the first one takes the messages.
 */
int flnet_inbox_open(flnet_node node, uint32_t portal, size_t size, flnet_inbox *inbox);

/*
 * Waits for the next message. `data` has room for `size` bytes, at least as many as the inbox was opened with.
 * Returns 1 with a message, 0 if none came in time, -ESHUTDOWN if the node has stopped.
 */
int flnet_inbox_next(flnet_inbox inbox, struct flnet_message *message, void *data, size_t size, int timeout);

/* Closes an inbox. From then on nothing takes messages there, and their senders wait until their time is over. */
int flnet_inbox_close(flnet_inbox inbox);

/* ---- Queues of events ---- */

enum flnet_event_kind {
    FLNET_EVENT_GET = 1,     /* another node read the memory */
    FLNET_EVENT_PUT = 2,     /* another node wrote to the memory */
    FLNET_EVENT_REPLY = 3,   /* the answer to a get is in the memory */
    FLNET_EVENT_ACK = 4,     /* the target has accepted a put */
    FLNET_EVENT_SEND = 5,    /* the message was sent, or was not */
    FLNET_EVENT_UNLINK = 6,  /* the descriptor is gone, with nothing under way */
    FLNET_EVENT_TIMEOUT = 7  /* an ACK or REPLY did not come in time */
};

struct flnet_event {
    uint32_t kind;             /* enum flnet_event_kind */
    int32_t status;            /* 0, or a negative errno */
    flnet_md_handle md;        /* the descriptor */
    uint64_t user;             /* its `user` */
    uint32_t unlinked;         /* 1: the last event of the descriptor; its memory belongs to the program again */
    uint32_t portal;
    struct flnet_id target;    /* whom the operation was for */
    struct flnet_id initiator; /* who began it */
    struct flnet_nid sender;   /* the last hop of an arrived message, the first one of a sent message */
    uint32_t offset;           /* where in the descriptor the bytes begin */
    uint64_t match_bits;
    uint64_t hdr_data;         /* of a put */
    uint32_t rlength;          /* bytes that were asked for */
    uint32_t mlength;          /* bytes that were moved */
};

/* Opens a queue for the events of descriptors. */
int flnet_queue_open(flnet_node node, flnet_queue *queue);

/*
 * Waits until there are events, and moves at most `count` of them to `events`. Returns how many; 0 if none came in
 * time, -ESHUTDOWN if the node has stopped and all events were taken. Several threads may wait.
 */
int flnet_wait(flnet_queue queue, struct flnet_event *events, size_t count, int timeout);

/*
 * Returns a file descriptor that is readable while the queue may have events, for poll(2) and event loops. When it is
 * readable, call flnet_wait with a timeout of 0 until it returns 0. The descriptor belongs to the queue: the program
 * neither reads nor closes it. -EOPNOTSUPP with FLNET_PROGRESS_CALLER.
 */
int flnet_queue_fd(flnet_queue queue);

/*
 * Closes a queue; threads that wait for its events return. Events of descriptors that still use it are discarded, so the
 * memory of these descriptors is the node's until it has stopped.
 */
int flnet_queue_close(flnet_queue queue);

/* ---- Memory descriptors ---- */

/* Options of a descriptor. */
#define FLNET_MD_OP_PUT 0x0001u            /* attached: others may put */
#define FLNET_MD_OP_GET 0x0002u            /* attached: others may get */
#define FLNET_MD_MANAGE_REMOTE 0x0004u     /* the initiator's offset counts, not the descriptor's own */
#define FLNET_MD_TRUNCATE 0x0010u          /* a longer payload is cut */
#define FLNET_MD_ACK_DISABLE 0x0020u       /* no ACK is sent */
#define FLNET_MD_MAX_SIZE 0x0080u          /* `max_size` counts */
#define FLNET_MD_TRACK_RESPONSE 0x0400u    /* a response that does not come is reported */
#define FLNET_MD_NO_TRACK_RESPONSE 0x0800u /* is not reported */

/* Memory for operations. Set all to zero, then what differs. */
struct flnet_md {
    void *start;        /* stays where it is until the event with `unlinked`; may be null if `length` is 0 */
    size_t length;      /* below 4 GiB; at most FLNET_MTU if bound */
    uint32_t options;   /* FLNET_MD_* */
    uint32_t threshold; /* operations, after which the descriptor is unlinked; 0 for any number. A get uses two, and so
                           does a put with an ACK. */
    uint32_t max_size;  /* the most bytes of one operation; the descriptor ends when fewer are left */
    uint64_t user;      /* comes back in every event */
};

/* What messages a descriptor accepts. Set all to zero, then what differs. */
struct flnet_match {
    uint32_t portal;      /* 1 to 63 */
    uint32_t first;       /* 1: before the entries that the portal has, 0: behind them */
    uint64_t match_bits;
    uint64_t ignore_bits; /* bits that may differ */
    struct flnet_id from; /* the initiator, with its pid or FLNET_PID_ANY; with a NID of zeros: anybody */
};

/* Makes memory the source of puts, or the destination of gets. */
int flnet_bind(flnet_queue queue, const struct flnet_md *md, flnet_md_handle *handle);

/* Offers memory to other nodes, which put there or get from there, as the options say. */
int flnet_attach(flnet_queue queue, const struct flnet_match *match, const struct flnet_md *md,
                 flnet_md_handle *handle);

/* Ends a descriptor. Its last event comes when nothing is under way, at once if nothing is. */
int flnet_unlink(flnet_node node, flnet_md_handle md);

/* Ends a descriptor, and breaks off what is being received into it. */
int flnet_cancel(flnet_node node, flnet_md_handle md);

/* ---- Operations ---- */

/* Set all to zero, then what differs. */
struct flnet_put {
    flnet_md_handle md;        /* from flnet_bind: the bytes to send */
    struct flnet_address to;
    uint32_t offset;           /* where they go in the target's memory, if it has FLNET_MD_MANAGE_REMOTE */
    uint32_t ack;              /* 1: the target says that it has them */
    uint64_t hdr_data;         /* comes with the target's event */
    struct flnet_nid source;   /* the interface to send from; of zeros: any */
};

/* Set all to zero, then what differs. */
struct flnet_get {
    flnet_md_handle md;        /* from flnet_bind: where the bytes go; as many as it has room for */
    struct flnet_address from;
    uint32_t offset;           /* where they are in the target's memory */
    struct flnet_nid source;   /* the interface to send from; of zeros: any */
};

/* Begins a put. Its events come to the queue of the descriptor. */
int flnet_put(flnet_node node, const struct flnet_put *put);

/* Begins a get. */
int flnet_get(flnet_node node, const struct flnet_get *get);

/*
 * Begins many puts: costs less than as many calls, and more of the messages leave together. Returns how many have
 * begun, all of them unless one was rejected: flnet_error() says why. A negative errno if not even the first has.
 */
int flnet_put_many(flnet_node node, const struct flnet_put *puts, size_t count);

/* Begins many gets, as flnet_put_many does. */
int flnet_get_many(flnet_node node, const struct flnet_get *gets, size_t count);

/* ---- Other nodes ---- */

/* An interface of a node. */
struct flnet_interface {
    struct flnet_nid nid;
    uint32_t up; /* 0 if the node says that it is down, else 1 */
};

/* Asks a node for its interfaces, and writes at most `count` of them. Returns how many there are. */
int flnet_ping(flnet_node node, const struct flnet_nid *target, struct flnet_interface *interfaces, size_t count,
               int timeout);

/* Discovers a node, and writes at most `count` of its NIDs, the primary one first. Returns how many there are. */
int flnet_discover(flnet_node node, const struct flnet_nid *target, struct flnet_nid *nids, size_t count,
                   int timeout);

/* ---- Counters ---- */

/* Since the node's start. Set `size` before the call. */
struct flnet_counters {
    size_t size; /* sizeof(struct flnet_counters) */
    uint64_t send_count;
    uint64_t send_length;
    uint64_t recv_count;
    uint64_t recv_length;
    uint64_t route_count;
    uint64_t route_length;
    uint64_t drop_count;
    uint64_t drop_length;
    uint64_t resend_count;
    uint64_t response_timeout_count;
    uint64_t events_lost; /* because a queue was full */
};

int flnet_counters(flnet_node node, struct flnet_counters *counters);

/* ---- Errors ---- */

/* The text of this thread's last failure, valid until its next one; empty if there was none. */
const char *flnet_error(void);

#ifdef __cplusplus
}
#endif

#endif
