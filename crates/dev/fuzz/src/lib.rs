//! Properties of decoders that must hold for any bytes.
//!
//! Each decoder has one function. It panics if a property does not hold; otherwise it returns,
//! whether the bytes are accepted or rejected. The programs in `fuzz/` call the functions with
//! inputs of libFuzzer; the tests of this crate call them with mutations of the committed seeds.
//! The crate is for development only.
//!
//! The properties: decoders do not panic; the offset of an error is inside the input; a decoded
//! value encodes and decodes to the same value; canonical bytes are unchanged after decoding and
//! encoding; functions that return how much to read are right.

mod capture;
mod control;
mod o2ib;
mod planning;
mod policy;
mod ptlrpc;
mod ptlrpc_client;
mod record;
mod services;
mod site;
mod text;
mod wire;
mod zbmi;
mod zoid;

pub use capture::capture;
pub use control::control_frame;
pub use o2ib::o2ib_machine;
pub use planning::{machine_file, site_lists, site_topologies};
pub use policy::rule_block;
pub use ptlrpc::ptlrpc;
pub use ptlrpc_client::ptlrpc_client;
pub use record::record;
pub use services::{file_head, file_message, reply_log, rpc_message, selftest_message};
pub use site::site_files;
pub use text::{config_shown, config_yaml, module_options, nid_expression};
pub use wire::{connreq, hello, ksock_frame, lnet_header, o2ib_message, ping_info};
pub use zbmi::zbmi_inputs;
pub use zoid::{zoid_command, zoid_frame};

/// The body of a fuzz target.
pub type Body = fn(&[u8]);

/// Every body by the name of its target, which is also the name of the directory of its seeds.
pub const BODIES: &[(&str, Body)] = &[
    ("capture", capture),
    ("config_shown", config_shown),
    ("config_yaml", config_yaml),
    ("connreq", connreq),
    ("control_frame", control_frame),
    ("file_head", file_head),
    ("file_message", file_message),
    ("hello", hello),
    ("ksock_frame", ksock_frame),
    ("lnet_header", lnet_header),
    ("machine_file", machine_file),
    ("module_options", module_options),
    ("nid_expression", nid_expression),
    ("o2ib_machine", o2ib_machine),
    ("o2ib_message", o2ib_message),
    ("ping_info", ping_info),
    ("ptlrpc", ptlrpc),
    ("ptlrpc_client", ptlrpc_client),
    ("record", record),
    ("reply_log", reply_log),
    ("rpc_message", rpc_message),
    ("rule_block", rule_block),
    ("selftest_message", selftest_message),
    ("site_files", site_files),
    ("site_lists", site_lists),
    ("site_topologies", site_topologies),
    ("zbmi_inputs", zbmi_inputs),
    ("zoid_command", zoid_command),
    ("zoid_frame", zoid_frame),
];
