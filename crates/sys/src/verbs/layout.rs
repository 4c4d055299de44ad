//! The structures of `infiniband/verbs.h` and `rdma/rdma_cma.h` that this module reads or writes. A test compares each
//! offset with the headers.

use std::ffi::{c_int, c_uint, c_void};

use nix::libc::sockaddr_storage;

type Unused = *mut c_void;

/// `struct ibv_context_ops`: the calls of the data path.
#[repr(C)]
pub(super) struct ContextOps {
    before: [Unused; 11],
    pub(super) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Completion) -> c_int>,
    pub(super) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    between: [Unused; 12],
    pub(super) post_send:
        Option<unsafe extern "C" fn(*mut Qp, *mut SendWork, *mut *mut SendWork) -> c_int>,
    pub(super) post_recv:
        Option<unsafe extern "C" fn(*mut Qp, *mut ReceiveWork, *mut *mut ReceiveWork) -> c_int>,
    after: [Unused; 5],
}

/// The beginning of `struct ibv_context`.
#[repr(C)]
pub(super) struct Context {
    device: Unused,
    pub(super) ops: ContextOps,
    pub(super) cmd_fd: c_int,
    pub(super) async_fd: c_int,
}

/// The beginning of `struct ibv_pd`.
#[repr(C)]
pub(super) struct Pd {
    pub(super) context: *mut Context,
}

/// The beginning of `struct ibv_mr`.
#[repr(C)]
pub(super) struct Mr {
    context: *mut Context,
    pd: *mut Pd,
    pub(super) addr: *mut c_void,
    pub(super) length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// The beginning of `struct ibv_cq`.
#[repr(C)]
pub(super) struct Cq {
    pub(super) context: *mut Context,
}

/// The beginning of `struct ibv_comp_channel`.
#[repr(C)]
pub(super) struct CompChannel {
    context: *mut Context,
    pub(super) fd: c_int,
}

/// The beginning of `struct ibv_qp`.
#[repr(C)]
pub(super) struct Qp {
    pub(super) context: *mut Context,
    qp_context: Unused,
    pd: *mut Pd,
    send_cq: *mut Cq,
    recv_cq: *mut Cq,
    srq: Unused,
    handle: u32,
    pub(super) qp_num: u32,
}

/// `struct ibv_qp_init_attr`, with `struct ibv_qp_cap` inside.
#[repr(C)]
pub(super) struct QpInit {
    pub(super) qp_context: Unused,
    pub(super) send_cq: *mut Cq,
    pub(super) recv_cq: *mut Cq,
    pub(super) srq: Unused,
    pub(super) max_send_wr: u32,
    pub(super) max_recv_wr: u32,
    pub(super) max_send_sge: u32,
    pub(super) max_recv_sge: u32,
    pub(super) max_inline_data: u32,
    pub(super) qp_type: c_int,
    pub(super) sq_sig_all: c_int,
}

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Sge {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct ibv_send_wr`. The unions have the members that writes use.
#[repr(C)]
pub(super) struct SendWork {
    pub(super) wr_id: u64,
    pub(super) next: *mut SendWork,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
    pub(super) opcode: c_int,
    pub(super) send_flags: c_uint,
    pub(super) imm_data: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    pub(super) rest_of_wr: [u64; 2],
    pub(super) qp_type: u32,
    pub(super) rest: [u64; 6],
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(super) struct ReceiveWork {
    pub(super) wr_id: u64,
    pub(super) next: *mut ReceiveWork,
    pub(super) sg_list: *mut Sge,
    pub(super) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Completion {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    vendor_err: u32,
    pub(super) byte_len: u32,
    imm_data: u32,
    pub(super) qp_num: u32,
    src_qp: u32,
    wc_flags: c_uint,
    pkey_index: u16,
    slid: u16,
    sl: u8,
    dlid_path_bits: u8,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub(super) struct AsyncEvent {
    pub(super) element: AsyncElement,
    pub(super) event_type: c_int,
}

/// The union of `struct ibv_async_event`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union AsyncElement {
    pub(super) pointer: Unused,
    pub(super) port_num: c_int,
}

/// The beginning of `struct ibv_device_attr`.
#[repr(C)]
pub(super) struct DeviceAttributes {
    names: [u8; 64],
    guids: [u64; 2],
    sizes: [u64; 2],
    versions: [u32; 3],
    max_qp: c_int,
    pub(super) max_qp_wr: c_int,
    /// The rest, with room to spare: the library writes the whole structure.
    rest: [u64; 32],
}

/// The beginning of `struct ibv_port_attr`.
#[repr(C)]
pub(super) struct PortAttributes {
    pub(super) state: c_int,
    /// The rest, with room to spare: the library writes the whole structure.
    rest: [u32; 31],
}

/// `struct rdma_event_channel`.
#[repr(C)]
pub(super) struct EventChannel {
    pub(super) fd: c_int,
}

/// The beginning of `struct rdma_cm_id`.
#[repr(C)]
pub(super) struct CmId {
    pub(super) verbs: *mut Context,
    pub(super) channel: *mut EventChannel,
    pub(super) context: Unused,
    pub(super) qp: *mut Qp,
    pub(super) source: sockaddr_storage,
    pub(super) destination: sockaddr_storage,
    ib_addr: [u64; 5],
    path_rec: Unused,
    num_paths: [c_int; 2],
    ps: c_int,
    pub(super) port_num: u8,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConnParam {
    pub(super) private_data: *const c_void,
    pub(super) private_data_len: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) flow_control: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    pub(super) srq: u8,
    pub(super) qp_num: u32,
}

/// The beginning of `struct rdma_cm_event`.
#[repr(C)]
pub(super) struct CmEvent {
    pub(super) id: *mut CmId,
    pub(super) listen_id: *mut CmId,
    pub(super) event: c_int,
    pub(super) status: c_int,
    pub(super) conn: ConnParam,
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::mem::{offset_of, size_of};
    use std::process::Command;

    use super::super::cm::ADDR_CHANGE;
    use super::super::queue::PORT_ACTIVE;
    use super::*;

    /// Lists members of a structure: the name in C, a place, the name here.
    macro_rules! members {
        ($structure:literal $here:ident: $($in_c:literal $member:ident),*) => {
            vec![$(($structure, $in_c, offset_of!($here, $member))),*]
        };
    }

    /// Each line: a C structure, its members in C, and where Rust has them; the sizes have no member.
    #[rustfmt::skip]
    fn pairs() -> Vec<(&'static str, &'static str, usize)> {
        [
            members!("ibv_context_ops" ContextOps: "poll_cq" poll_cq, "req_notify_cq" req_notify_cq,
                "post_send" post_send, "post_recv" post_recv),
            members!("ibv_context" Context: "ops" ops, "cmd_fd" cmd_fd, "async_fd" async_fd),
            members!("ibv_pd" Pd: "context" context),
            members!("ibv_mr" Mr: "addr" addr, "length" length, "lkey" lkey, "rkey" rkey),
            members!("ibv_cq" Cq: "context" context),
            members!("ibv_comp_channel" CompChannel: "fd" fd),
            members!("ibv_qp" Qp: "context" context, "qp_num" qp_num),
            members!("ibv_qp_init_attr" QpInit: "send_cq" send_cq, "recv_cq" recv_cq,
                "cap.max_send_wr" max_send_wr, "cap.max_recv_wr" max_recv_wr, "cap.max_send_sge" max_send_sge,
                "cap.max_recv_sge" max_recv_sge, "qp_type" qp_type, "sq_sig_all" sq_sig_all),
            members!("ibv_sge" Sge: "length" length, "lkey" lkey),
            members!("ibv_send_wr" SendWork: "next" next, "sg_list" sg_list, "num_sge" num_sge, "opcode" opcode,
                "send_flags" send_flags, "wr.rdma.remote_addr" remote_addr, "wr.rdma.rkey" rkey, "qp_type" qp_type),
            members!("ibv_recv_wr" ReceiveWork: "sg_list" sg_list, "num_sge" num_sge),
            members!("ibv_wc" Completion: "status" status, "opcode" opcode, "byte_len" byte_len, "qp_num" qp_num),
            members!("ibv_async_event" AsyncEvent: "event_type" event_type),
            members!("ibv_device_attr" DeviceAttributes: "max_qp_wr" max_qp_wr),
            members!("ibv_port_attr" PortAttributes: "state" state),
            members!("rdma_event_channel" EventChannel: "fd" fd),
            members!("rdma_cm_id" CmId: "verbs" verbs, "channel" channel, "context" context, "qp" qp,
                "route.addr.src_addr" source, "route.addr.dst_addr" destination, "port_num" port_num),
            members!("rdma_conn_param" ConnParam: "private_data" private_data,
                "private_data_len" private_data_len, "flow_control" flow_control, "retry_count" retry_count,
                "rnr_retry_count" rnr_retry_count, "qp_num" qp_num),
            members!("rdma_cm_event" CmEvent: "listen_id" listen_id, "event" event, "status" status,
                "param.conn" conn),
            vec![
                ("ibv_context_ops", "", size_of::<ContextOps>()),
                ("ibv_qp_init_attr", "", size_of::<QpInit>()),
                ("ibv_sge", "", size_of::<Sge>()),
                ("ibv_send_wr", "", size_of::<SendWork>()),
                ("ibv_recv_wr", "", size_of::<ReceiveWork>()),
                ("ibv_wc", "", size_of::<Completion>()),
                ("ibv_async_event", "", size_of::<AsyncEvent>()),
                ("rdma_conn_param", "", size_of::<ConnParam>()),
            ],
        ]
        .concat()
    }

    #[test]
    fn each_structure_is_that_of_the_headers() {
        if !std::path::Path::new("/usr/include/rdma/rdma_cma.h").exists() {
            println!("skipped: no headers (libibverbs-dev, librdmacm-dev)");
            return;
        }
        let mut source = String::from(
            "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/rdma_cma.h>\nint main(void) {\n",
        );
        for (structure, member, _) in pairs() {
            let what = match member {
                "" => format!("sizeof(struct {structure})"),
                member => format!("offsetof(struct {structure}, {member})"),
            };
            writeln!(source, "printf(\"%zu\\n\", {what});").unwrap();
        }
        for structure in ["ibv_device_attr", "ibv_port_attr"] {
            writeln!(source, "printf(\"%zu\\n\", sizeof(struct {structure}));").unwrap();
        }
        source.push_str(
            "printf(\"%d\\n\", IBV_PORT_ACTIVE);\nprintf(\"%d\\n\", RDMA_CM_EVENT_ADDR_CHANGE);\n",
        );
        source.push_str("return 0; }\n");
        let folder = std::env::temp_dir().join(format!("verbs-layout-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, program) = (folder.join("layout.c"), folder.join("layout"));
        std::fs::write(&file, source).unwrap();
        let built = Command::new("cc")
            .arg(&file)
            .arg("-o")
            .arg(&program)
            .status()
            .unwrap();
        assert!(built.success());
        let output = Command::new(&program).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut numbers = text.lines().map(|line| line.parse::<usize>().unwrap());
        for (structure, member, ours) in pairs() {
            assert_eq!(numbers.next(), Some(ours), "{structure} {member}");
        }
        assert!(numbers.next().unwrap() <= size_of::<DeviceAttributes>());
        assert!(numbers.next().unwrap() <= size_of::<PortAttributes>());
        assert_eq!(numbers.next(), Some(PORT_ACTIVE as usize));
        assert_eq!(numbers.next(), Some(ADDR_CHANGE as usize));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
