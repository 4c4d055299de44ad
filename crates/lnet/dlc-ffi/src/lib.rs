//! `libfinerail_dlc`: the Dynamic LNet Configuration library for C programs.
//!
//! `include/finerail_dlc.h` has the documentation and the functions, structures and enumerations of
//! the selection-policy design under their original names. `lnet-dlc` and `lnet-policy` implement
//! them; this crate adds only the C interface: pointers, one connection for each process, errors as
//! negative errnos. The README has a short program.
//!
//! Every pointer from C may be null; the call then fails, or the argument counts as absent. Any
//! other pointer must satisfy the header. Limits: a process controls one node at a time, and
//! threads take turns.

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
