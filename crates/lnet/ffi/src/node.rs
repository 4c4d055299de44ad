//! Nodes: start, stop, their NIDs and counters, ping and discovery.

#![expect(unsafe_code, reason = "pointers from C, exported names")]

use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

use lnet_node::{AcceptMode, AddNiError, InterfaceError, Node, NodeOptions, Progress};
use lnet_noded::StartError;
use lnet_wire::NiStatus;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow};

use crate::abi::{flnet_counters, flnet_interface, flnet_nid, flnet_options};
use crate::arguments::{self, Places, number, time_limit};
use crate::failure::{Failure, returned};
use crate::handles::{self, Thing};

fn node_options(options: Option<&flnet_options>) -> Result<NodeOptions, Failure> {
    let mut node = NodeOptions::default();
    let Some(options) = options else {
        return Ok(node);
    };
    arguments::check_struct(
        options.size,
        size_of::<flnet_options>(),
        "struct flnet_options",
    )?;
    let invalid = |what| Failure::new(Errno::EINVAL, format_args!("struct flnet_options: {what}"));
    if options.port > 0 {
        node.port = u16::try_from(options.port).map_err(|_| invalid("port is above 65535"))?;
    }
    node.accept = match options.accept {
        0 => None,
        1 => Some(AcceptMode::Secure),
        2 => Some(AcceptMode::All),
        3 => Some(AcceptMode::None),
        _ => return Err(invalid("accept is none of enum flnet_accept")),
    };
    if options.io_threads > 0 {
        let threads = u16::try_from(options.io_threads).ok();
        let most = threads.filter(|threads| *threads <= IO_THREADS_MAX);
        node.io_threads = most.ok_or_else(|| invalid("io_threads is above 64"))?;
    }
    node.progress = match options.progress {
        0 => Progress::Thread,
        1 => Progress::Caller,
        _ => return Err(invalid("progress is none of enum flnet_progress")),
    };
    node.spin = Duration::from_micros(options.spin_us.into());
    Ok(node)
}

/// The most threads that a node has, as `finerail node` takes them.
const IO_THREADS_MAX: u16 = 64;

fn start(yaml: &str, name: &str, options: Option<&flnet_options>) -> Result<Arc<Node>, Failure> {
    let options = node_options(options)?;
    let config = lnet_config::parse(yaml)
        .map_err(|error| Failure::new(Errno::EINVAL, error.render(name).trim_end()))?;
    let node = without_signals(|| lnet_noded::start(&config, options));
    let node = node.map_err(|error| Failure::new(errno_of(&error), error))?;
    Ok(Arc::new(node.into_node()))
}

/// Runs a call that starts threads. They inherit which signals are blocked, all here, so that the program's own threads
/// handle its signals.
fn without_signals<R>(call: impl FnOnce() -> R) -> R {
    // Neither call can fail: the arguments are no pointers of the program.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let result = call();
    if let Ok(before) = before {
        let _never_fails = before.thread_set_mask();
    }
    result
}

/// Returns what `bind(2)` would have said, and `EINVAL` for a document that cannot be carried out.
fn errno_of(error: &StartError) -> Errno {
    match error {
        StartError::Interface(InterfaceError::Lnd(error)) => match error {
            AddNiError::AddressNotHere(_) => Errno::EADDRNOTAVAIL,
            AddNiError::PortInUse { .. } => Errno::EADDRINUSE,
            AddNiError::PortPrivilege { .. } => Errno::EACCES,
            _ => Errno::EINVAL,
        },
        _ => Errno::EINVAL,
    }
}

/// See the header.
///
/// # Safety
///
/// `yaml` is null or a string, `options` null or a struct, `node` null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_start(
    yaml: *const c_char,
    options: *const flnet_options,
    node: *mut u64,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (yaml, options, node) = unsafe {
        (
            arguments::text(yaml, "yaml"),
            options.as_ref(),
            Places::one(node, "node"),
        )
    };
    returned(yaml.and_then(|yaml| {
        let mut place = node?;
        place.set(
            0,
            handles::register(Thing::Node(start(yaml, "yaml", options)?)),
        );
        Ok(0)
    }))
}

/// See the header.
///
/// # Safety
///
/// `path` is null or a string, `options` null or a struct, `node` null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_start_file(
    path: *const c_char,
    options: *const flnet_options,
    node: *mut u64,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (path, options, node) = unsafe {
        (
            arguments::text(path, "path"),
            options.as_ref(),
            Places::one(node, "node"),
        )
    };
    returned(path.and_then(|path| {
        let mut place = node?;
        let unreadable = |error: std::io::Error| {
            let errno = error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw);
            Failure::new(errno, format_args!("cannot read {path}: {error}"))
        };
        let yaml = std::fs::read_to_string(path).map_err(unreadable)?;
        place.set(
            0,
            handles::register(Thing::Node(start(&yaml, path, options)?)),
        );
        Ok(0)
    }))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn flnet_stop(node: u64, grace: c_int) -> c_int {
    returned(handles::node(node).and_then(|found| {
        handles::forget(node, "node")?;
        let report = found.shutdown(time_limit(grace));
        Ok(c_int::from(!report.clean))
    }))
}

/// See the header.
///
/// # Safety
///
/// `nids` is null or valid for writes of `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_nids(node: u64, nids: *mut flnet_nid, count: usize) -> c_int {
    // SAFETY: the caller promises the same.
    let places = unsafe { Places::array(nids, count, "nids") };
    returned(handles::node(node).and_then(|node| {
        let nids = node.nids().into_iter().map(flnet_nid::from);
        Ok(number(places?.fill(nids)))
    }))
}

/// See the header.
///
/// # Safety
///
/// `target` is null or a NID, `interfaces` null or valid for writes of `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_ping(
    node: u64,
    target: *const flnet_nid,
    interfaces: *mut flnet_interface,
    count: usize,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (target, places) = unsafe {
        (
            arguments::read(target, "target"),
            Places::array(interfaces, count, "interfaces"),
        )
    };
    returned(handles::node(node).and_then(|node| {
        let mut places = places?;
        let reply = node.ping(target?.required()?, None, time_limit(timeout))?;
        let interfaces = reply.nis.into_iter().map(|ni| flnet_interface {
            nid: ni.nid.into(),
            up: (ni.status != NiStatus::DOWN).into(),
        });
        Ok(number(places.fill(interfaces)))
    }))
}

/// See the header.
///
/// # Safety
///
/// `target` is null or a NID, `nids` null or valid for writes of `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_discover(
    node: u64,
    target: *const flnet_nid,
    nids: *mut flnet_nid,
    count: usize,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller promises the same.
    let (target, places) = unsafe {
        (
            arguments::read(target, "target"),
            Places::array(nids, count, "nids"),
        )
    };
    returned(handles::node(node).and_then(|node| {
        let mut places = places?;
        let peer = node.discover(target?.required()?, time_limit(timeout))?;
        let others = peer.nis.iter().map(|ni| ni.nid);
        let others = others.filter(|nid| *nid != peer.primary);
        let nids = std::iter::once(peer.primary).chain(others);
        Ok(number(places.fill(nids.map(flnet_nid::from))))
    }))
}

/// See the header.
///
/// # Safety
///
/// `counters` is null or valid for reads and writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn flnet_counters(node: u64, counters: *mut flnet_counters) -> c_int {
    // SAFETY: the caller promises the same. The place is not written while this reference lives.
    let size = unsafe { arguments::read(counters, "counters") }.map(|counters| counters.size);
    // SAFETY: the caller promises the same.
    let place = unsafe { Places::one(counters, "counters") };
    returned(handles::node(node).and_then(|node| {
        let size = size?;
        arguments::check_struct(size, size_of::<flnet_counters>(), "struct flnet_counters")?;
        let stats = node.stats();
        let counters = flnet_counters {
            size,
            send_count: stats.send_count,
            send_length: stats.send_length,
            recv_count: stats.recv_count,
            recv_length: stats.recv_length,
            route_count: stats.route_count,
            route_length: stats.route_length,
            drop_count: stats.drop_count,
            drop_length: stats.drop_length,
            resend_count: stats.resend_count,
            response_timeout_count: stats.response_timeout_count,
            events_lost: stats.events_lost,
        };
        place?.set(0, counters);
        Ok(0)
    }))
}
