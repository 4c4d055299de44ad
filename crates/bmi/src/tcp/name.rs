//! Addresses of the form `tcp://host:port`, with or without a path, which means nothing here.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use crate::error::Error;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    host: String,
    port: u16,
}

impl Name {
    /// That of an address to send to.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: not `tcp://host:port`.
    pub(crate) fn of_peer(address: &str) -> Result<Name, Error> {
        let (host, port) = split(address)?;
        let port = port.ok_or(Error::Inval)?;
        Ok(Name { host, port })
    }

    /// That of an address to listen on; without a port the system picks one.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: neither `tcp://host` nor `tcp://host:port`.
    pub(crate) fn to_listen_on(address: &str) -> Result<Name, Error> {
        let (host, port) = split(address)?;
        let port = port.unwrap_or(0);
        Ok(Name { host, port })
    }

    /// The socket address. A host with several addresses is its first of version 4, else its first, so
    /// that every process comes to the same one. May take seconds.
    ///
    /// # Errors
    ///
    /// [`Error::HostNtFd`]: no such host.
    pub(crate) fn resolve(&self) -> Result<SocketAddr, Error> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, self.port));
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map_err(|_| Error::HostNtFd)?.collect();
        let first_v4 = found.iter().find(|address| address.is_ipv4());
        first_v4.or(found.first()).copied().ok_or(Error::HostNtFd)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "tcp://[{}]:{}", self.host, self.port),
            false => write!(f, "tcp://{}:{}", self.host, self.port),
        }
    }
}

/// Whether an address equals the host of `tcp://host` or `tcp://host:port` in its first `bits` bits.
///
/// # Errors
///
/// [`Error::Inval`]: the host is no number, or has fewer bits.
pub(crate) fn in_range(ip: IpAddr, wildcard: &str, bits: u32) -> Result<bool, Error> {
    let range: IpAddr = split(wildcard)?.0.parse().map_err(|_| Error::Inval)?;
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

/// The host, without the brackets of version 6, and the port, if there is one. What a file system
/// appends behind a slash is its own.
fn split(address: &str) -> Result<(String, Option<u16>), Error> {
    let rest = address.strip_prefix("tcp://").ok_or(Error::Inval)?;
    let rest = rest.split_once('/').map_or(rest, |(rest, _path)| rest);
    let bracketed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (host, port) = match bracketed {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or(Error::Inval)?)),
        None => match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let is_number = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if host.is_empty() || host.ends_with(char::is_whitespace) || !port.is_none_or(is_number) {
        return Err(Error::Inval);
    }
    let port = port.map(str::parse).transpose().map_err(|_| Error::Inval)?;
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(address: &str) -> Result<SocketAddr, Error> {
        Name::of_peer(address)?.resolve()
    }

    #[test]
    fn a_path_behind_an_address_means_nothing() {
        for address in [
            "tcp://127.0.0.1:3334/pvfs2-fs",
            "tcp://127.0.0.1:3334/a:b/c",
        ] {
            assert_eq!(resolve(address), Ok("127.0.0.1:3334".parse().unwrap()));
        }
        assert_eq!(resolve("tcp://[::1]:1/"), Ok("[::1]:1".parse().unwrap()));
    }

    #[test]
    fn only_who_listens_may_leave_the_port_to_the_system() {
        for address in ["tcp://127.0.0.1", "tcp://[::1]", "tcp://127.0.0.1/path"] {
            let listen = Name::to_listen_on(address).unwrap();
            assert_eq!(listen.resolve().unwrap().port(), 0);
            assert_eq!(Name::of_peer(address), Err(Error::Inval), "{address}");
        }
        for bad in ["tcp://", "tcp:///a", "tcp://a:", "tcp://[::1]x", "tcp://a "] {
            assert_eq!(Name::to_listen_on(bad), Err(Error::Inval), "{bad}");
        }
    }

    #[test]
    fn a_name_is_printed_as_it_is_looked_up() {
        for address in ["tcp://host:1", "tcp://[::1]:2"] {
            assert_eq!(Name::of_peer(address).unwrap().to_string(), address);
        }
    }

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
