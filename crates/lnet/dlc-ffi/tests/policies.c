/* Uses every function of the library against the node at argv[1]; exits 0 when all behaved. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finerail_dlc.h"

static int failures;

#define CHECK(what)                                                                                    \
	do {                                                                                           \
		if (!(what)) {                                                                         \
			fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what,                          \
				finerail_dlc_last_error());                                            \
			failures++;                                                                    \
		}                                                                                      \
	} while (0)

static void nets(void)
{
	struct finerail_sel_pol *policies = NULL;
	char tcp[] = "tcp[1-5]", o2ib[] = "o2ib", tcp4[] = "tcp4";

	CHECK(lustre_lnet_add_net_sel_pol(tcp, 3) == 0);
	CHECK(lustre_lnet_add_net_sel_pol(o2ib, 1) == 0);
	CHECK(lustre_lnet_add_net_sel_pol(tcp, 2) == 0);
	CHECK(lustre_lnet_show_net_sel_pol(NULL) == 0);
	CHECK(lustre_lnet_show_net_sel_pol_r(tcp4, &policies) == 1);
	CHECK(policies && policies[0].id == 0 && policies[0].priority == 2);
	CHECK(policies && strcmp(policies[0].src, tcp) == 0 && !policies[0].dst);
	free(policies);
	CHECK(lustre_lnet_del_net_sel_pol(o2ib, 0) == -EINVAL);
	CHECK(lustre_lnet_del_net_sel_pol(o2ib, -1) == 0);
	CHECK(lustre_lnet_del_net_sel_pol(NULL, 0) == 0);
	CHECK(lustre_lnet_del_net_sel_pol(tcp, -1) == -ENOENT);
	CHECK(lustre_lnet_show_net_sel_pol_r(NULL, &policies) == 0 && !policies);
}

static void nids(void)
{
	struct finerail_sel_pol *policies = NULL;
	char nid[] = "10.0.0.[1-4]@tcp";

	CHECK(lustre_lnet_add_nid_sel_pol(nid, 0) == 0);
	CHECK(lustre_lnet_show_nid_sel_pol(nid) == 0);
	CHECK(lustre_lnet_show_nid_sel_pol_r(NULL, &policies) == 1);
	free(policies);
	CHECK(lustre_lnet_del_nid_sel_pol(nid, -1) == 0);
}

static void pairs(void)
{
	struct finerail_sel_pol *policies = NULL;
	char src[] = "10.0.0.1@tcp", dst[] = "10.0.9.[0-255]@tcp";

	CHECK(lustre_lnet_add_peer_sel_pol(src, dst, 7) == 0);
	CHECK(lustre_lnet_show_peer_sel_pol(src, NULL) == 0);
	CHECK(lustre_lnet_show_peer_sel_pol_r(NULL, NULL, &policies) == 1);
	CHECK(policies && strcmp(policies[0].src, src) == 0 && policies[0].dst);
	free(policies);
	CHECK(lustre_lnet_del_peer_sel_pol(src, NULL, -1) == -EINVAL);
	CHECK(lustre_lnet_del_peer_sel_pol(src, dst, -1) == 0);
}

static void wrong_arguments(void)
{
	char net[] = "tcp", nonsense[] = "no such net";

	CHECK(lustre_lnet_add_net_sel_pol(NULL, 1) == -EINVAL);
	CHECK(lustre_lnet_add_net_sel_pol(net, -1) == -EINVAL);
	CHECK(lustre_lnet_add_net_sel_pol(nonsense, 1) == -EINVAL);
	CHECK(strlen(finerail_dlc_last_error()) > 0);
	CHECK(lustre_lnet_add_nid_sel_pol(net, 1) == -EINVAL);
	CHECK(lustre_lnet_add_peer_sel_pol(NULL, NULL, 1) == -EINVAL);
	CHECK(lustre_lnet_del_net_sel_pol(NULL, -1) == -EINVAL);
	CHECK(lustre_lnet_del_net_sel_pol(net, -2) == -EINVAL);
	CHECK(lustre_lnet_show_net_sel_pol_r(NULL, NULL) == -EINVAL);
}

static void blocks(void)
{
	struct lnet_ioctl_net_rule rule, back;
	enum lnet_sel_rule_type type = LNET_SEL_RULE_P2P;
	unsigned char block[64], got[64];
	__u32 seen = 0;
	int length;

	memset(&rule, 0, sizeof(rule));
	rule.nsr_descr.nsd_net_id = 0x00020001; /* tcp1 */
	rule.nsr_prio = 9;
	length = lnet_sel_rule_serialize(LNET_SEL_RULE_NET, &rule, 1, block, sizeof(block));
	CHECK(length == 44);
	CHECK(lnet_sel_rule_serialize(LNET_SEL_RULE_NET, &rule, 1, block, 43) == -ENOSPC);
	CHECK(lnet_sel_rule_deserialize(block, 44, &type, &back, 1) == 1);
	CHECK(type == LNET_SEL_RULE_NET && memcmp(&rule, &back, sizeof(rule)) == 0);
	CHECK(lnet_sel_rule_deserialize(block, 44, &type, NULL, 0) == 1);
	CHECK(lnet_sel_rule_deserialize(block, 44, &type, &back, 0) == -ENOSPC);
	CHECK(lnet_sel_rule_deserialize(block, 30, &type, &back, 1) == -EINVAL);
	CHECK(lnet_sel_rule_deserialize(NULL, 44, NULL, NULL, 0) == -EINVAL);
	CHECK(finerail_dlc_add_rules(block, 44) == 0);
	CHECK(finerail_dlc_get_rules(LNET_SEL_RULE_NET, got, sizeof(got)) == 44);
	CHECK(memcmp(block, got, 44) == 0);
	CHECK(finerail_dlc_get_rules(LNET_SEL_RULE_NET, got, 43) == -ENOSPC);
	CHECK(finerail_dlc_get_rules_seen(LNET_SEL_RULE_NET, got, sizeof(got), &seen) == 44);
	CHECK(finerail_dlc_replace_rules(block, 44, seen) == 0);
	CHECK(finerail_dlc_replace_rules(block, 44, seen) == -ESTALE);
	CHECK(strstr(finerail_dlc_last_error(), "have changed") != NULL);
	CHECK(finerail_dlc_replace_rules(block, 44, 0) == -EINVAL);
	CHECK(finerail_dlc_get_rules_seen(LNET_SEL_RULE_NET, got, sizeof(got), NULL) == 44);
	length = lnet_sel_rule_serialize(LNET_SEL_RULE_NET, NULL, 0, block, sizeof(block));
	CHECK(length == 24 && finerail_dlc_add_rules(block, (size_t)length) == 0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	CHECK(finerail_dlc_connect("/nonexistent/control.sock") == -ENOENT);
	CHECK(finerail_dlc_connect(argv[1]) == 0);
	nets();
	nids();
	pairs();
	wrong_arguments();
	blocks();
	finerail_dlc_close();
	return failures ? 1 : 0;
}
