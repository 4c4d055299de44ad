//! The two libraries, loaded when the first RDMA network is asked for.

use std::ffi::{c_int, c_void};
use std::io;
use std::sync::Arc;

use libloading::Library;
use nix::libc::sockaddr;

use super::layout::{
    AsyncEvent, CmEvent, CmId, CompChannel, ConnParam, Context, Cq, DeviceAttributes, EventChannel,
    Mr, Pd, PortAttributes, QpInit,
};

/// Declares the functions of the libraries: name, arguments, result.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, as long as the libraries are loaded.
        #[allow(missing_docs, reason = "their names are those of the libraries' manual pages")]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _libraries: [Library; 2],
        }

        #[expect(unsafe_code, reason = "only the caller of a function knows its type")]
        fn load() -> Result<Functions, libloading::Error> {
            // SAFETY: the initializers of the two libraries have no conditions.
            let verbs = unsafe { Library::new("libibverbs.so.1") }?;
            // SAFETY: as above.
            let cm = unsafe { Library::new("librdmacm.so.1") }?;
            Ok(Functions {
                $($name: {
                    let name = concat!(stringify!($name), "\0").as_bytes();
                    // SAFETY: the type is that of the header. The pointer lives as long as the libraries beside it.
                    let found = unsafe { cm.get(name).or_else(|_| verbs.get(name)) }?;
                    *found
                },)*
                _libraries: [verbs, cm],
            })
        }
    };
}

functions! {
    rdma_create_event_channel: fn() -> *mut EventChannel;
    rdma_destroy_event_channel: fn(*mut EventChannel);
    rdma_create_id: fn(*mut EventChannel, *mut *mut CmId, *mut c_void, c_int) -> c_int;
    rdma_destroy_id: fn(*mut CmId) -> c_int;
    rdma_bind_addr: fn(*mut CmId, *mut sockaddr) -> c_int;
    rdma_listen: fn(*mut CmId, c_int) -> c_int;
    rdma_resolve_addr: fn(*mut CmId, *mut sockaddr, *mut sockaddr, c_int) -> c_int;
    rdma_resolve_route: fn(*mut CmId, c_int) -> c_int;
    rdma_create_qp: fn(*mut CmId, *mut Pd, *mut QpInit) -> c_int;
    rdma_destroy_qp: fn(*mut CmId);
    rdma_connect: fn(*mut CmId, *mut ConnParam) -> c_int;
    rdma_accept: fn(*mut CmId, *mut ConnParam) -> c_int;
    rdma_reject: fn(*mut CmId, *const c_void, u8) -> c_int;
    rdma_disconnect: fn(*mut CmId) -> c_int;
    rdma_notify: fn(*mut CmId, c_int) -> c_int;
    rdma_get_cm_event: fn(*mut EventChannel, *mut *mut CmEvent) -> c_int;
    rdma_ack_cm_event: fn(*mut CmEvent) -> c_int;
    ibv_alloc_pd: fn(*mut Context) -> *mut Pd;
    ibv_dealloc_pd: fn(*mut Pd) -> c_int;
    ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    ibv_dereg_mr: fn(*mut Mr) -> c_int;
    ibv_create_comp_channel: fn(*mut Context) -> *mut CompChannel;
    ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int;
    ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    ibv_destroy_cq: fn(*mut Cq) -> c_int;
    ibv_get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut Cq, u32);
    ibv_query_port: fn(*mut Context, u8, *mut PortAttributes) -> c_int;
    ibv_query_device: fn(*mut Context, *mut DeviceAttributes) -> c_int;
    ibv_get_async_event: fn(*mut Context, *mut AsyncEvent) -> c_int;
    ibv_ack_async_event: fn(*mut AsyncEvent);
}

/// libibverbs and librdmacm. Clones are the same libraries.
#[derive(Clone)]
pub struct Verbs(pub(super) Arc<Functions>);

impl Verbs {
    /// Loads the libraries.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] with what is missing, and the package that has it.
    pub fn load() -> io::Result<Self> {
        let loaded = load().map_err(|error| {
            let what = format!("{error} (Debian: apt-get install librdmacm1 ibverbs-providers)");
            io::Error::new(io::ErrorKind::NotFound, what)
        });
        Ok(Self(Arc::new(loaded?)))
    }
}

/// Turns the result of a call into an error.
pub(super) fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        error => Err(io::Error::from_raw_os_error(error.abs())),
    }
}
