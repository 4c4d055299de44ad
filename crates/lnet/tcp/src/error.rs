//! Errors of adding an interface.

use std::io;
use std::net::IpAddr;

use lnd::NiId;
use lnet_types::Nid;
use thiserror::Error;

/// Why an interface cannot be added. Each message says what to do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AddNiError {
    /// The NID is not on a TCP network.
    #[error("{0} is not a NID of a tcp network, such as 10.0.0.1@tcp")]
    NotTcp(Nid),
    /// The key or the NID is in use.
    #[error("{nid} (interface {}) is already configured", .ni.0)]
    Duplicate {
        /// The key that was given.
        ni: NiId,
        /// The NID that was given.
        nid: Nid,
    },
    /// The address does not belong to this machine.
    #[error("{0} is not an address of this machine: see `ip address` for those that are")]
    AddressNotHere(IpAddr),
    /// Another socket listens on the port already.
    #[error(
        "port {port} on {address} is in use: stop the program that `ss -ltnp 'sport = {port}'` \
         shows, or choose another port (one that all nodes share)"
    )]
    PortInUse {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
    },
    /// Ports below 1024 need a privilege that this process lacks.
    #[error(
        "listening on port {port} needs a privilege: run `setcap cap_net_bind_service=+ep` on the \
         program, or `sysctl net.ipv4.ip_unprivileged_port_start={port}`, or choose a port above \
         1023 (one that all nodes share)"
    )]
    PortPrivilege {
        /// The port.
        port: u16,
    },
    /// The congestion control cannot be used.
    #[error(
        "TCP congestion control '{name}' cannot be used ({source}): \
         `sysctl net.ipv4.tcp_allowed_congestion_control` lists those that can"
    )]
    Congestion {
        /// The name that was given.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// Any other failure of the system.
    #[error("cannot listen on {address} port {port}: {source}")]
    Listen {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
}
