//! Whether this process may bind a port, so that an error message can say what to do.

use std::{fs, io};

/// `CAP_NET_BIND_SERVICE` of `capabilities(7)`.
const CAP_NET_BIND_SERVICE: u32 = 10;

/// Returns the first port that any process may bind, from `net.ipv4.ip_unprivileged_port_start`:
/// 1024 by default. The value also applies to IPv6, and belongs to one network namespace.
///
/// # Errors
///
/// `/proc` is not mounted, or the file does not hold a number.
pub fn unprivileged_port_start() -> io::Result<u16> {
    let path = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    let text = fs::read_to_string(path)?;
    port_start(&text).ok_or_else(|| io::Error::other(format!("{path} is not a port: {text:?}")))
}

/// Returns whether the calling thread has the privilege to bind `port`, as source or as listening
/// port.
///
/// The result is for messages and is no guarantee: the port may be in use, and in a user namespace
/// the capability counts only in network namespaces that belong to it.
///
/// # Errors
///
/// `/proc` is not mounted, or its contents are invalid.
pub fn may_bind_port(port: u16) -> io::Result<bool> {
    Ok(port == 0 || port >= unprivileged_port_start()? || holds_net_bind_service()?)
}

fn holds_net_bind_service() -> io::Result<bool> {
    // Capabilities belong to threads. `/proc/self` would show those of the main thread.
    let path = "/proc/thread-self/status";
    let effective = effective_capabilities(&fs::read_to_string(path)?)
        .ok_or_else(|| io::Error::other(format!("{path} has no CapEff line")))?;
    Ok(effective >> CAP_NET_BIND_SERVICE & 1 == 1)
}

/// The kernel accepts 0 to 65536 here. With 65536 no port is unprivileged; 65535 is the nearest
/// port number.
fn port_start(text: &str) -> Option<u16> {
    let start: u32 = text.trim().parse().ok()?;
    Some(u16::try_from(start).unwrap_or(u16::MAX))
}

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn a_high_port_and_any_free_port_need_no_privilege() {
        assert!(may_bind_port(0).unwrap());
        assert!(may_bind_port(u16::MAX).unwrap());
    }

    #[test]
    fn the_answer_agrees_with_what_the_kernel_does() {
        // Two low ports on which nothing listens by default. A port in use gives no information.
        for port in [3, 5] {
            let allowed = may_bind_port(port).unwrap();
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(_) => assert!(allowed, "port {port}"),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    assert!(!allowed, "port {port}");
                }
                Err(_) => {}
            }
        }
    }

    #[test]
    fn the_effective_set_is_read_from_its_own_line() {
        let status = "CapPrm:\tffffffffffffffff\nCapEff:\t0000000000000400\nCapBnd:\t0\n";
        assert_eq!(
            effective_capabilities(status),
            Some(1 << CAP_NET_BIND_SERVICE)
        );
        assert_eq!(effective_capabilities("CapPrm:\t0\n"), None);
        assert_eq!(effective_capabilities("CapEff:\tno number\n"), None);
    }

    #[test]
    fn a_port_start_beyond_the_last_port_is_the_last_port() {
        assert_eq!(port_start("1024\n"), Some(1024));
        assert_eq!(port_start("0\n"), Some(0));
        assert_eq!(port_start("65536\n"), Some(u16::MAX));
        assert_eq!(port_start("\n"), None);
    }
}
