//! Addresses of the form `tcp://host:port`.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::error::Error;

/// The socket address of `tcp://host:port`. A host with several addresses is its first of version
/// 4, else its first, so that every process comes to the same one.
///
/// # Errors
///
/// [`Error::Inval`]: not of this form. [`Error::HostNtFd`]: no such host.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr, Error> {
    let (host, port) = split(address)?;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.map_err(|_| Error::HostNtFd)?.collect();
    let first_v4 = found.iter().find(|address| address.is_ipv4());
    first_v4.or(found.first()).copied().ok_or(Error::HostNtFd)
}

/// Whether an address equals the host of `tcp://host` or `tcp://host:port` in its first `bits`
/// bits.
///
/// # Errors
///
/// [`Error::Inval`]: the host is no number, or has fewer bits.
pub(crate) fn in_range(ip: IpAddr, wildcard: &str, bits: u32) -> Result<bool, Error> {
    let rest = wildcard.strip_prefix("tcp://").ok_or(Error::Inval)?;
    let bare = rest
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let range: IpAddr = match bare.unwrap_or(rest).parse() {
        Ok(ip) => ip,
        Err(_) => split(wildcard)?.0.parse().map_err(|_| Error::Inval)?,
    };
    match (ip.to_canonical(), range.to_canonical()) {
        (IpAddr::V4(ip), IpAddr::V4(range)) => {
            let differing = (ip.to_bits() ^ range.to_bits()).leading_zeros();
            Ok(differing >= at_most(bits, 32)?)
        }
        (IpAddr::V6(ip), IpAddr::V6(range)) => {
            let differing = (ip.to_bits() ^ range.to_bits()).leading_zeros();
            Ok(differing >= at_most(bits, 128)?)
        }
        _ => Ok(false),
    }
}

fn at_most(bits: u32, limit: u32) -> Result<u32, Error> {
    if bits > limit {
        return Err(Error::Inval);
    }
    Ok(bits)
}

/// The host, without the brackets of version 6, and the port.
fn split(address: &str) -> Result<(&str, u16), Error> {
    let rest = address.strip_prefix("tcp://").ok_or(Error::Inval)?;
    let (host, port) = rest.rsplit_once(':').ok_or(Error::Inval)?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if host.is_empty() || !digits {
        return Err(Error::Inval);
    }
    Ok((host, port.parse().map_err(|_| Error::Inval)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_are_an_address() {
        assert_eq!(
            resolve("tcp://127.0.0.1:3334"),
            Ok("127.0.0.1:3334".parse().unwrap())
        );
        assert_eq!(resolve("tcp://[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        assert_eq!(
            resolve("tcp://localhost:80"),
            Ok("127.0.0.1:80".parse().unwrap())
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let bad = [
            "tcp://",
            "tcp://a",
            "tcp://:1",
            "tcp://a:",
            "tcp://a:x",
            "tcp://a:+1",
            "udp://a:1",
            "tcp://a:65536",
            "tcp://a:1 ",
            "",
        ];
        for address in bad {
            assert_eq!(resolve(address), Err(Error::Inval), "{address}");
        }
        assert_eq!(resolve("tcp://no such host:1"), Err(Error::HostNtFd));
    }

    #[test]
    fn a_range_is_the_leading_bits() {
        let ip = "10.1.2.3".parse().unwrap();
        assert_eq!(in_range(ip, "tcp://10.1.0.0", 16), Ok(true));
        assert_eq!(in_range(ip, "tcp://10.1.2.2:3334", 31), Ok(true));
        assert_eq!(in_range(ip, "tcp://10.1.2.2:3334", 32), Ok(false));
        assert_eq!(in_range(ip, "tcp://99.0.0.0", 0), Ok(true));
        assert_eq!(in_range(ip, "tcp://10.1.0.0", 33), Err(Error::Inval));
        assert_eq!(in_range(ip, "tcp://host", 8), Err(Error::Inval));
        assert_eq!(in_range(ip, "tcp://[::1]", 0), Ok(false));
    }
}
