//! Addresses of the form `tcp://host:port`, with or without a path, which is ignored, and `tcp://unix:/path`,
//! which names a Unix-domain socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::endpoint::Endpoint;
use crate::error::Error;

/// An address as a program writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A host and a port.
    Host(String, u16),
    /// The path of a socket.
    Path(PathBuf),
}

/// The prefix of an address of a Unix-domain socket.
const UNIX: &str = "tcp://unix:/";

impl Name {
    /// Parses an address to send to.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: not `tcp://host:port`.
    pub(crate) fn of_peer(address: &str) -> Result<Name, Error> {
        if let Some(path) = path(address)? {
            return Ok(Name::Path(path));
        }
        let (host, port) = split(address)?;
        let port = port.ok_or(Error::Inval)?;
        Ok(Name::Host(host, port))
    }

    /// Parses an address to listen on. Without a port the system chooses one.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: neither `tcp://host` nor `tcp://host:port`.
    // [ADDR-20]
    pub(crate) fn to_listen_on(address: &str) -> Result<Name, Error> {
        if let Some(path) = path(address)? {
            return Ok(Name::Path(path));
        }
        let (host, port) = split(address)?;
        let port = port.unwrap_or(0);
        Ok(Name::Host(host, port))
    }

    /// Resolves the socket address: the host's first IPv4 address, else its first address, so that every
    /// process gets the same result. May take seconds.
    ///
    /// # Errors
    ///
    /// [`Error::HostNtFd`]: no such host.
    pub(crate) fn resolve(&self) -> Result<Endpoint, Error> {
        let (host, port) = match self {
            Self::Path(path) => return Ok(Endpoint::Unix(path.clone())),
            Self::Host(host, port) => (host.as_str(), *port),
        };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Endpoint::Inet(SocketAddr::new(ip, port)));
        }
        let found = (host, port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map_err(|_| Error::HostNtFd)?.collect();
        let first_v4 = found.iter().find(|address| address.is_ipv4());
        let first = first_v4.or(found.first()).copied();
        first.map(Endpoint::Inet).ok_or(Error::HostNtFd)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "tcp://unix:{}", path.display()),
            Self::Host(host, port) if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Host(host, port) => write!(f, "tcp://{host}:{port}"),
        }
    }
}

/// Returns whether the first `bits` bits of an address equal those of the host in `tcp://host` or
/// `tcp://host:port`.
///
/// # Errors
///
/// [`Error::Inval`]: the host is not numeric, or has fewer bits.
// [ADDR-26]
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

/// The longest path of a socket in bytes: `sun_path` of unix(7), without the terminating zero.
const PATH_MAX: usize = 107;

/// Returns the path of an address that has one.
// [ADDR-22]
fn path(address: &str) -> Result<Option<PathBuf>, Error> {
    let Some(rest) = address.strip_prefix(UNIX) else {
        return Ok(None);
    };
    match rest.len() {
        0 => Err(Error::Inval),
        _ if rest.ends_with(char::is_whitespace) => Err(Error::Inval),
        len if len >= PATH_MAX => Err(Error::NameTooLong),
        _ => Ok(Some(PathBuf::from(format!("/{rest}")))),
    }
}

/// Splits an address into host, without the brackets of IPv6, and optional port. Ignores what file systems
/// append after a slash.
// [ADDR-21]
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
        match Name::of_peer(address)?.resolve()? {
            Endpoint::Inet(address) => Ok(address),
            Endpoint::Unix(path) => panic!("{}", path.display()),
        }
    }

    // [ADDR-22]
    #[test]
    fn the_path_of_a_socket_is_an_address() {
        let address = "tcp://unix:/run/app/socket";
        let path = Endpoint::Unix("/run/app/socket".into());
        for name in [Name::of_peer(address), Name::to_listen_on(address)] {
            assert_eq!(name.as_ref().unwrap().resolve().as_ref(), Ok(&path));
            assert_eq!(name.unwrap().to_string(), address);
        }
        assert_eq!(path.to_string(), address);
        assert_eq!(Name::of_peer("tcp://unix:/"), Err(Error::Inval));
        assert_eq!(Name::of_peer("tcp://unix:socket"), Err(Error::Inval));
        let long = format!("tcp://unix:/{}", "a".repeat(PATH_MAX));
        assert_eq!(Name::of_peer(&long), Err(Error::NameTooLong));
    }

    // [ADDR-21]
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

    // [ADDR-20]
    #[test]
    fn only_who_listens_may_leave_the_port_to_the_system() {
        for address in ["tcp://127.0.0.1", "tcp://[::1]", "tcp://127.0.0.1/path"] {
            let listen = Name::to_listen_on(address).unwrap();
            assert!(matches!(listen, Name::Host(_, 0)));
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

    // [ADDR-26]
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
