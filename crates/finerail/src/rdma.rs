//! Why a node on an o2ib network was not reached: what the attempts of an endpoint to connect have counted.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use lnet_node::{ConnectFailure, Node};
use lnet_wire::o2ib::RejectionReason;

/// Where the kernel lists the RDMA devices.
pub(crate) const DEVICES: &str = "/sys/class/infiniband";

/// Returns whether this machine has an RDMA device.
pub(crate) fn has_device() -> bool {
    fs::read_dir(DEVICES).is_ok_and(|mut devices| devices.next().is_some())
}

/// Returns whether one of the devices in a folder has an address of this network interface.
pub(crate) fn has_address_of(devices: &Path, interface: &str) -> bool {
    let inside = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let ports = inside(devices.to_owned()).flat_map(|device| inside(device.join("ports")));
    let mut addresses = ports.flat_map(|port| inside(port.join("gid_attrs/ndevs")));
    // An address that is not in use cannot be read.
    addresses.any(|path| fs::read_to_string(path).is_ok_and(|name| name.trim() == interface))
}

/// The end of the attempts to connect over RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// The node rejected the request.
    Rejected(RejectionReason),
    /// No node saw the request, or the request was not made.
    Failed(ConnectFailure),
    /// The request was not answered.
    Silent,
}

impl Unreached {
    /// Returns why the endpoint has no connection over RDMA; `None` if it had one, or has no o2ib interface.
    pub(crate) fn of(node: &Node) -> Option<Self> {
        node.look(|engine| {
            let stats = engine.o2iblnd_stats()?;
            if stats.established > 0 {
                return None;
            }
            let rejected = stats.rejections.iter().next();
            let rejected = rejected.map(|(reason, _)| Self::Rejected(reason));
            let failed = stats.failed.iter().next();
            let failed = failed.map(|(failure, _)| Self::Failed(failure));
            rejected.or(failed).or(Some(Self::Silent))
        })
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected(reason) => f.write_str(reason.meaning()),
            Self::Failed(failure) => failure.fmt(f),
            Self::Silent => f.write_str("the connection request has no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_has_the_interfaces_whose_addresses_it_lists() {
        let devices = tempfile::tempdir().unwrap();
        let addresses = devices.path().join("mlx5_0/ports/1/gid_attrs/ndevs");
        fs::create_dir_all(&addresses).unwrap();
        fs::write(addresses.join("0"), "eth0\n").unwrap();
        fs::write(addresses.join("1"), "eth0.100\n").unwrap();
        // Unused ones cannot be read.
        fs::create_dir(addresses.join("2")).unwrap();
        let has = |interface| has_address_of(devices.path(), interface);
        assert_eq!(
            ["eth0", "eth0.100", "eth1", ""].map(has),
            [true, true, false, false]
        );
        assert!(!has_address_of(&devices.path().join("absent"), "eth0"));
    }
}
