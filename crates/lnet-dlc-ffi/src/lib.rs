//! `libfinerail_dlc`: the Dynamic LNet Configuration library for C programs.
//!
//! `include/finerail_dlc.h` is the documentation: it has the functions, structures and enumerations of the
//! selection-policy design under its names. What they do is done by `lnet-dlc` and `lnet-policy`; here
//! stands only what C needs: pointers, one connection a process, errors as negative errnos.
//!
//! Every pointer from C may be null, and then the call is rejected or the argument counts as not given.
//! A pointer that is not null must be what the header says.

mod arguments;
mod policies;
mod records;
mod session;

pub use policies::{
    SelPol, lustre_lnet_add_net_sel_pol, lustre_lnet_add_nid_sel_pol, lustre_lnet_add_peer_sel_pol,
    lustre_lnet_del_net_sel_pol, lustre_lnet_del_nid_sel_pol, lustre_lnet_del_peer_sel_pol,
    lustre_lnet_show_net_sel_pol, lustre_lnet_show_net_sel_pol_r, lustre_lnet_show_nid_sel_pol,
    lustre_lnet_show_nid_sel_pol_r, lustre_lnet_show_peer_sel_pol, lustre_lnet_show_peer_sel_pol_r,
};
pub use records::{
    finerail_dlc_add_rules, finerail_dlc_get_rules, finerail_dlc_get_rules_seen,
    finerail_dlc_replace_rules, lnet_sel_rule_deserialize, lnet_sel_rule_serialize,
};
pub use session::{finerail_dlc_close, finerail_dlc_connect, finerail_dlc_last_error};
