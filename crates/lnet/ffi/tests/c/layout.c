/* Prints the layout of every structure. Also compiled as C++. */
#include <stddef.h>
#include <stdio.h>

#include <finerail_lnet.h>

#define SIZE(type) printf("%s %lu\n", #type, (unsigned long)sizeof(struct type))
#define FIELD(type, field) printf("%s.%s %lu\n", #type, #field, (unsigned long)offsetof(struct type, field))

int main(void)
{
    SIZE(flnet_nid);
    SIZE(flnet_id);
    FIELD(flnet_id, pid);
    SIZE(flnet_address);
    FIELD(flnet_address, portal);
    FIELD(flnet_address, match_bits);
    SIZE(flnet_options);
    FIELD(flnet_options, port);
    FIELD(flnet_options, accept);
    FIELD(flnet_options, io_threads);
    FIELD(flnet_options, spin_us);
    FIELD(flnet_options, progress);
    SIZE(flnet_message);
    FIELD(flnet_message, match_bits);
    FIELD(flnet_message, hdr_data);
    FIELD(flnet_message, length);
    SIZE(flnet_event);
    FIELD(flnet_event, status);
    FIELD(flnet_event, md);
    FIELD(flnet_event, user);
    FIELD(flnet_event, unlinked);
    FIELD(flnet_event, portal);
    FIELD(flnet_event, target);
    FIELD(flnet_event, initiator);
    FIELD(flnet_event, sender);
    FIELD(flnet_event, offset);
    FIELD(flnet_event, match_bits);
    FIELD(flnet_event, hdr_data);
    FIELD(flnet_event, rlength);
    FIELD(flnet_event, mlength);
    SIZE(flnet_md);
    FIELD(flnet_md, length);
    FIELD(flnet_md, options);
    FIELD(flnet_md, threshold);
    FIELD(flnet_md, max_size);
    FIELD(flnet_md, user);
    SIZE(flnet_match);
    FIELD(flnet_match, first);
    FIELD(flnet_match, match_bits);
    FIELD(flnet_match, ignore_bits);
    FIELD(flnet_match, from);
    SIZE(flnet_put);
    FIELD(flnet_put, to);
    FIELD(flnet_put, offset);
    FIELD(flnet_put, ack);
    FIELD(flnet_put, hdr_data);
    FIELD(flnet_put, source);
    SIZE(flnet_get);
    FIELD(flnet_get, from);
    FIELD(flnet_get, offset);
    FIELD(flnet_get, source);
    SIZE(flnet_interface);
    FIELD(flnet_interface, up);
    SIZE(flnet_counters);
    FIELD(flnet_counters, events_lost);
    return 0;
}
