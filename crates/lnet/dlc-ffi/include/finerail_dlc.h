/*
 * finerail_dlc.h: selection policies of a running node, from C.
 *
 * The functions, structures and enumerations of the selection-policy design stand here under its names.
 * Link with -lfinerail_dlc. Every function returns 0 (or a count) or a negative errno; then
 * finerail_dlc_last_error() says more.
 *
 * The design's functions name no node. They speak to the one that this process connected last, or to
 * the default one. Any thread may call any function; calls are carried out one after another.
 */
#ifndef FINERAIL_DLC_H
#define FINERAIL_DLC_H

#include <stddef.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the connection ---------------------------------------------------------------------------- */

/*
 * Connects this process to the node that is controlled at the Unix socket 'path'; NULL: the default,
 * $XDG_RUNTIME_DIR/finerail/control.sock, or /run/finerail/control.sock. Replaces an earlier connection.
 * A connection that breaks is made again by the next call, to the same node.
 */
int finerail_dlc_connect(const char *path);

/* Ends the connection. The next call connects to the default node. */
void finerail_dlc_close(void);

/* What went wrong in this thread's last call that failed; "" before that. Valid until its next call. */
const char *finerail_dlc_last_error(void);

/* ---- policies ---------------------------------------------------------------------------------- */

/* Adds or updates. Priorities: 0 (best) upwards. */
int lustre_lnet_add_net_sel_pol(char *net, int priority);
int lustre_lnet_add_nid_sel_pol(char *nid, int priority);
int lustre_lnet_add_peer_sel_pol(char *src_nid, char *dst_nid, int priority);

/*
 * Deletes by expression, by id, or both when they agree. An expression may be NULL; the id -1 is "not
 * given". -ENOENT: there is none.
 */
int lustre_lnet_del_net_sel_pol(char *net, int id);
int lustre_lnet_del_nid_sel_pol(char *nid, int id);
int lustre_lnet_del_peer_sel_pol(char *src_nid, char *dst_nid, int id);

/* Prints the policies on standard output as YAML. A filter may be NULL. */
int lustre_lnet_show_net_sel_pol(char *net);
int lustre_lnet_show_nid_sel_pol(char *nid);
int lustre_lnet_show_peer_sel_pol(char *src_nid, char *dst_nid);

/* A policy, for programs. 'src' is the expression of a net or NID policy; 'dst' is NULL there. */
struct finerail_sel_pol {
	int id;
	__u32 priority;
	const char *src;
	const char *dst;
};

/*
 * As the functions above, for programs: '*policies' is one block of memory with all records and their
 * strings, to be released with free(); NULL when there are none. Returns how many there are.
 */
int lustre_lnet_show_net_sel_pol_r(char *net, struct finerail_sel_pol **policies);
int lustre_lnet_show_nid_sel_pol_r(char *nid, struct finerail_sel_pol **policies);
int lustre_lnet_show_peer_sel_pol_r(char *src_nid, char *dst_nid, struct finerail_sel_pol **policies);

/* ---- structures of the design in user space ---------------------------------------------------- */

#ifndef FINERAIL_DLC_NO_LIST_HEAD
struct list_head {
	struct list_head *next, *prev;
};
#endif

struct cfs_expr_list;

/* nw_id: a base network (o2ib) or a full one (o2ib3). nw_expr: the variable part. */
struct lustre_lnet_network_descr {
	__u32 nw_id;
	struct cfs_expr_list *nw_expr;
};

struct lustre_lnet_network_rule {
	struct list_head *nwr_link;
	struct lustre_lnet_network_descr nwr_descr;
	int priority;
};

struct lustre_lnet_nidr_range_descr {
	struct list_head nidr_expr;
	struct lustre_lnet_network_descr nidr_nw;
};

struct lustre_lnet_nidr_range_rule {
	struct list_head *nidr_link;
	struct lustre_lnet_nidr_range_descr nidr_descr;
	int priority;
};

struct lustre_lnet_p2p_rule {
	struct list_head *p2p_link;
	struct lustre_lnet_nidr_range_descr p2p_src_descr;
	struct lustre_lnet_nidr_range_descr p2p_dst_descr;
	int priority;
};

/* ---- records that travel ----------------------------------------------------------------------- */

/* A range of numbers; ex_stride 0: absent, and the others are 0 too. */
struct lnet_expr {
	__u32 ex_lo;
	__u32 ex_hi;
	__u32 ex_stride;
};

/* nsd_net_id: type << 16 | number; the number is 0 when there is an expression. */
struct lnet_net_descr {
	__u32 nsd_net_id;
	struct lnet_expr nsd_expr;
};

/* nir_ip[0]: the octet that is printed first. */
struct lnet_nid_descr {
	struct lnet_expr nir_ip[4];
	struct lnet_net_descr nir_net;
};

struct lnet_ioctl_net_rule {
	struct lnet_net_descr nsr_descr;
	__u32 nsr_prio;
};

struct lnet_ioctl_nid_rule {
	struct lnet_nid_descr nir_descr;
	__u32 nir_prio;
};

struct lnet_ioctl_net_p2p_rule {
	struct lnet_nid_descr p2p_src_descr;
	struct lnet_nid_descr p2p_dst_descr;
	__u32 p2p_prio;
};

enum lnet_sel_rule_type {
	LNET_SEL_RULE_NET = 0,
	LNET_SEL_RULE_NID = 1,
	LNET_SEL_RULE_P2P = 2
};

struct libcfs_ioctl_hdr {
	__u32 ioc_len;
	__u32 ioc_version;
};

/* A block's header. On a socket or in a file rule_bulk is a byte offset from the start of the block. */
struct lnet_ioctl_rule_blk {
	struct libcfs_ioctl_hdr rule_hdr;
	enum lnet_sel_rule_type rule_type;
	__u32 rule_size;
	void *rule_bulk;
};

/* The request codes of the control protocol that carry such blocks. */
#define IOC_LIBCFS_ADD_RULES 1
#define IOC_LIBCFS_GET_RULES 2

/*
 * Writes 'count' rules of the type (an array of lnet_ioctl_net_rule, lnet_ioctl_nid_rule or
 * lnet_ioctl_net_p2p_rule in the machine's byte order) as a block, which is little-endian. Returns the
 * block's length; -ENOSPC when 'length' is too small.
 */
int lnet_sel_rule_serialize(enum lnet_sel_rule_type type, const void *rules, size_t count,
			    void *block, size_t length);

/*
 * Reads a block: its type, and its rules into an array of 'capacity' records of that type. Returns how
 * many there are; -ENOSPC when there are more than that. 'rules' may be NULL to ask for type and number.
 */
int lnet_sel_rule_deserialize(const void *block, size_t length, enum lnet_sel_rule_type *type,
			      void *rules, size_t capacity);

/* Sends a block (ADD) to the node; asks it for one (GET) and returns its length. */
int finerail_dlc_add_rules(const void *block, size_t length);
int finerail_dlc_get_rules(enum lnet_sel_rule_type type, void *block, size_t length);

/*
 * The same for programs that change rules which others change, too. 'generation' is that of the whole
 * list when it was fetched; -ESTALE: it has changed since, nothing was done, fetch it again. All
 * functions that add or delete policies do so by themselves.
 */
int finerail_dlc_get_rules_seen(enum lnet_sel_rule_type type, void *block, size_t length,
				__u32 *generation);
int finerail_dlc_replace_rules(const void *block, size_t length, __u32 generation);

#define FINERAIL_DLC_ASSERT(name, what) typedef char finerail_dlc_assert_##name[(what) ? 1 : -1]
FINERAIL_DLC_ASSERT(expr, sizeof(struct lnet_expr) == 12);
FINERAIL_DLC_ASSERT(net_descr, sizeof(struct lnet_net_descr) == 16);
FINERAIL_DLC_ASSERT(nid_descr, sizeof(struct lnet_nid_descr) == 64);
FINERAIL_DLC_ASSERT(net_rule, sizeof(struct lnet_ioctl_net_rule) == 20);
FINERAIL_DLC_ASSERT(nid_rule, sizeof(struct lnet_ioctl_nid_rule) == 68);
FINERAIL_DLC_ASSERT(p2p_rule, sizeof(struct lnet_ioctl_net_p2p_rule) == 132);
FINERAIL_DLC_ASSERT(rule_blk, sizeof(void *) != 8 || sizeof(struct lnet_ioctl_rule_blk) == 24);

#ifdef __cplusplus
}
#endif

#endif /* FINERAIL_DLC_H */
