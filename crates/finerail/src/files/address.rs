//! Addresses of files: the forms for all carriers, and the one parser for them.
//!
//! ```text
//! dir:PATH                                 a directory of this machine, or a file in one
//! lnet:NID[,NID…][:/PATH]                  below what the gateways at these NIDs export
//! zoid:[INSTANCE][:/PATH]                  below what the forwarder of this I/O node exports; zoid:/PATH for short
//! zoid:tcp://HOST:PORT/INSTANCE[:/PATH]    below what the forwarder behind that daemon exports
//! bmi:tcp://HOST:PORT[:/PATH]              below what a forwarder exports over plain BMI
//! ```
//!
//! The path follows the `:` of the server, as with scp and with mounts of NFS and Lustre. A NID may contain
//! colons (IPv6) before its `@` but none after it, so the first `:` after the last `@` begins the path. The
//! path is bytes up to the end of the text. Its leading slash is optional. A slash at its end marks a
//! directory. Empty components and `.` are skipped. `..` is rejected, because a server would not follow it.
//!
//! Any other text is a path of this machine. A local path that looks like an address is written `./lnet:x`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use files::Path;
use files_lnet::Printable;
use lnet_types::Nid;
use zoid_proto::Instance;

/// The place of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A path of this machine.
    Local(PathBuf),
    /// A path at a server.
    Remote(Remote),
}

/// A path at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) server: Server,
    /// The path; `None` means everything that the server exports.
    pub(crate) path: Option<Path>,
    /// Whether the path ends with a slash, or there is no path.
    pub(crate) is_directory: bool,
}

/// A server of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Gateways on LNet, at least one.
    Lnet(Vec<Nid>),
    /// The forwarder behind a daemon of this I/O node. `None` means the daemon that the environment names.
    Zoid(Option<Instance>),
    /// The forwarder behind the daemon at HOST:PORT.
    ZoidTcp(String, Instance),
    /// A forwarder at HOST:PORT, over the tcp method of BMI.
    Bmi(String),
}

/// The reason why a text is not a valid address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadAddress(String);

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadAddress {}

/// The limit of NIDs in one address.
const NIDS_MAX: usize = 256;

impl Address {
    /// Parses an address. A text that does not begin with a carrier is a path of this machine.
    ///
    /// # Errors
    ///
    /// The text begins with a carrier, and the rest does not have that carrier's form.
    pub(crate) fn parse(text: &OsStr) -> Result<Self, BadAddress> {
        let bytes = text.as_bytes();
        let Some((carrier, rest)) = split_at_colon(bytes) else {
            return Ok(Self::Local(PathBuf::from(text)));
        };
        let bad = |why: String| BadAddress(format!("{}: {why}", Printable::new(bytes)));
        let (server, path) = match carrier {
            b"dir" if rest.is_empty() => return Err(bad("a path must follow 'dir:'".to_owned())),
            b"dir" => return Ok(Self::Local(PathBuf::from(OsStr::from_bytes(rest)))),
            b"lnet" => lnet(rest),
            b"zoid" => zoid(rest),
            b"bmi" => bmi(rest),
            _ => return Ok(Self::Local(PathBuf::from(text))),
        }
        .map_err(bad)?;
        let (path, is_directory) = path_within(path).map_err(bad)?;
        Ok(Self::Remote(Remote {
            server,
            path,
            is_directory,
        }))
    }

    /// Parses an address that must begin with a carrier.
    ///
    /// # Errors
    ///
    /// There is no carrier, or the rest does not have that carrier's form.
    pub(crate) fn parse_whole(text: &OsStr) -> Result<Self, BadAddress> {
        let has_carrier = split_at_colon(text.as_bytes())
            .is_some_and(|(carrier, _)| matches!(carrier, b"dir" | b"lnet" | b"zoid" | b"bmi"));
        if has_carrier {
            return Self::parse(text);
        }
        Err(BadAddress(format!(
            "{}: not an address; write dir:PATH, lnet:NID[,NID…][:/PATH], zoid:[INSTANCE][:/PATH] and \
             bmi:tcp://HOST:PORT[:/PATH]",
            Printable::new(text.as_bytes())
        )))
    }

    /// Returns the text of the address, in the form that [`Address::parse`] reads.
    pub(crate) fn to_text(&self) -> OsString {
        match self {
            Self::Local(path) => {
                let bytes = [b"dir:", path.as_os_str().as_bytes()].concat();
                OsString::from_vec(bytes)
            }
            Self::Remote(remote) => {
                let mut bytes = match remote.path {
                    Some(_) => remote.server.prefix().into_bytes(),
                    None => remote.server.to_string().into_bytes(),
                };
                if let Some(path) = &remote.path {
                    bytes.push(b'/');
                    bytes.extend_from_slice(path.as_bytes());
                    bytes.extend_from_slice(if remote.is_directory { b"/" } else { b"" });
                }
                OsString::from_vec(bytes)
            }
        }
    }
}

impl fmt::Display for Address {
    /// Formats the address for display: bytes that are not valid text, and misleading characters, are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable::new(self.to_text().as_bytes()).fmt(f)
    }
}

impl Server {
    /// Returns the text before the slash of a path at this server.
    pub(crate) fn prefix(&self) -> String {
        match self {
            Self::Zoid(None) => "zoid:".to_owned(),
            other => format!("{other}:"),
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lnet(nids) => {
                let nids: Vec<String> = nids.iter().map(Nid::to_string).collect();
                write!(f, "lnet:{}", nids.join(","))
            }
            Self::Zoid(None) => f.write_str("zoid:"),
            Self::Zoid(Some(instance)) => write!(f, "zoid:{instance}"),
            Self::ZoidTcp(host, instance) => write!(f, "zoid:tcp://{host}/{instance}"),
            Self::Bmi(host) => write!(f, "bmi:tcp://{host}"),
        }
    }
}

fn split_at_colon(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|&byte| byte == b':')?;
    Some((&bytes[..colon], &bytes[colon + 1..]))
}

/// Returns the text of a server's part of the address.
fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| format!("'{}' is not text", Printable::new(bytes)))
}

/// A server, and the bytes of the path after it.
type Parts<'a> = Result<(Server, &'a [u8]), String>;

fn lnet(rest: &[u8]) -> Parts<'_> {
    let (mut nids, mut left) = (Vec::new(), rest);
    loop {
        let at = left.iter().position(|&byte| byte == b'@');
        let at = at.ok_or("a NID such as 10.0.0.1@tcp must follow 'lnet:'")?;
        let end = left[at..].iter().position(|byte| b":,/".contains(byte));
        let (nid, behind) = left.split_at(end.map_or(left.len(), |end| at + end));
        let nid: Nid = text_of(nid)?.parse().map_err(|error| format!("{error}"))?;
        if nid.is_any() {
            return Err("a gateway has one NID without wildcards".to_owned());
        }
        nids.push(nid);
        match behind.split_first() {
            _ if nids.len() > NIDS_MAX => return Err(format!("at most {NIDS_MAX} NIDs")),
            Some((b',', more)) => left = more,
            Some((b':', path)) => return Ok((Server::Lnet(nids), path)),
            None => return Ok((Server::Lnet(nids), b"")),
            _ => return Err(format!("write a ':' between the NID {nid} and the path")),
        }
    }
}

fn zoid(rest: &[u8]) -> Parts<'_> {
    if let Some(rest) = rest.strip_prefix(b"tcp://") {
        let (host, rest) = host(rest)?;
        let rest = rest.strip_prefix(b"/");
        let rest = rest.ok_or("write zoid:tcp://HOST:PORT/INSTANCE")?;
        let (instance, path) = split_at_colon(rest).unwrap_or((rest, b""));
        return Ok((Server::ZoidTcp(host, instance_of(instance)?), path));
    }
    if rest.is_empty() || rest.starts_with(b"/") {
        return Ok((Server::Zoid(None), rest));
    }
    let (instance, path) = split_at_colon(rest).unwrap_or((rest, b""));
    let instance = match instance {
        b"" => None,
        name => Some(instance_of(name)?),
    };
    Ok((Server::Zoid(instance), path))
}

fn instance_of(bytes: &[u8]) -> Result<Instance, String> {
    text_of(bytes)?
        .parse()
        .map_err(|error: zoid_proto::BadInstance| error.to_string())
}

fn bmi(rest: &[u8]) -> Parts<'_> {
    let rest = rest.strip_prefix(b"tcp://");
    let (host, rest) = host(rest.ok_or("write bmi:tcp://HOST:PORT")?)?;
    match rest {
        [] => Ok((Server::Bmi(host), rest)),
        [b':', path @ ..] => Ok((Server::Bmi(host), path)),
        _ => Err(format!("write a ':' between {host} and the path")),
    }
}

/// Splits HOST:PORT from the front of a text, and returns the rest too. An IPv6 address stands in brackets.
fn host(bytes: &[u8]) -> Result<(String, &[u8]), String> {
    let bad = || "write HOST:PORT behind 'tcp://', such as io7:3334 or [fd00::1]:3334".to_owned();
    let name = match bytes.first() {
        Some(b'[') => bytes
            .iter()
            .position(|&byte| byte == b']')
            .map(|end| end + 1),
        _ => bytes.iter().position(|&byte| byte == b':'),
    };
    let (name, behind) = bytes.split_at(name.ok_or_else(bad)?);
    let behind = behind.strip_prefix(b":").ok_or_else(bad)?;
    let digits = behind
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let port: Option<u16> = text_of(&behind[..digits])?.parse().ok();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    match port {
        Some(port @ 1..) if !name.is_empty() && name.iter().all(is_name) => {
            Ok((format!("{}:{port}", text_of(name)?), &behind[digits..]))
        }
        _ => Err(bad()),
    }
}

/// Parses the path within the export of a server, and decides whether it must be a directory.
fn path_within(bytes: &[u8]) -> Result<(Option<Path>, bool), String> {
    let mut components = bytes.split(|&byte| byte == b'/');
    let named: Vec<&[u8]> = components
        .clone()
        .filter(|component| !matches!(*component, b"" | b"."))
        .collect();
    if named.is_empty() {
        return Ok((None, true));
    }
    if named.contains(&&b".."[..]) {
        return Err("'..' is not accepted at a server; write the path without it".to_owned());
    }
    let is_directory = components
        .next_back()
        .is_some_and(|last| matches!(last, b"" | b"."));
    let path = Path::new(&named.join(&b'/')).map_err(|errno| match errno {
        files::Errno::ENAMETOOLONG => {
            "a path has at most 4096 bytes, and 255 in each component".to_owned()
        }
        _ => "a path must not contain a NUL byte".to_owned(),
    })?;
    Ok((Some(path), is_directory))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Address, BadAddress> {
        Address::parse(OsStr::new(text))
    }

    /// Returns the canonical form of an address.
    fn canonical(text: &str) -> String {
        parse(text).unwrap().to_text().into_string().unwrap()
    }

    fn nid() -> impl Strategy<Value = Nid> {
        let net = prop::sample::select(vec!["tcp", "tcp7", "o2ib204", "kfi3"]);
        let address = prop_oneof![
            any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
            any::<std::net::Ipv6Addr>().prop_map(|ip| ip.to_string()),
            any::<u32>().prop_map(|number| number.to_string()),
        ];
        let text = (address, net).prop_map(|(address, net)| format!("{address}@{net}"));
        text.prop_filter_map("not a NID of this network", |text| text.parse().ok())
    }

    fn server() -> impl Strategy<Value = Server> {
        let instance = || "[A-Za-z0-9_-]{1,32}".prop_map(|name| name.parse::<Instance>().unwrap());
        let host = || {
            let name = prop_oneof![
                "[a-z][a-z0-9.-]{0,8}",
                any::<std::net::Ipv6Addr>().prop_map(|ip| format!("[{ip}]")),
            ];
            (name, 1..=u16::MAX).prop_map(|(name, port)| format!("{name}:{port}"))
        };
        prop_oneof![
            prop::collection::vec(nid(), 1..4).prop_map(Server::Lnet),
            Just(Server::Zoid(None)),
            instance().prop_map(|instance| Server::Zoid(Some(instance))),
            (host(), instance()).prop_map(|(host, instance)| Server::ZoidTcp(host, instance)),
            host().prop_map(Server::Bmi),
        ]
    }

    fn address() -> impl Strategy<Value = Address> {
        let bytes = || prop::collection::vec(any::<u8>(), 1..20);
        let path = bytes().prop_filter_map("not a path", |bytes| Path::new(&bytes).ok());
        let remote = (server(), prop::option::of(path), any::<bool>()).prop_map(
            |(server, path, is_directory)| Remote {
                server,
                is_directory: is_directory || path.is_none(),
                path,
            },
        );
        let local = bytes().prop_map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
        prop_oneof![
            remote.prop_map(Address::Remote),
            local.prop_map(Address::Local)
        ]
    }

    proptest! {
        #[test]
        fn a_printed_address_is_read_back(address in address()) {
            prop_assert_eq!(Address::parse_whole(&address.to_text()), Ok(address));
        }

        #[test]
        fn any_bytes_are_an_address_or_refused(
            carrier in prop::sample::select(vec!["", "dir:", "lnet:", "lnet:1@", "zoid:", "zoid:tcp://", "bmi:tcp://h:1"]),
            rest in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            let text = OsString::from_vec([carrier.as_bytes(), &rest].concat());
            if let Ok(Address::Remote(remote)) = Address::parse(&text) {
                let again = Address::Remote(remote);
                prop_assert_eq!(Address::parse(&again.to_text()), Ok(again));
            }
        }
    }

    #[test]
    fn addresses_have_one_form_each() {
        for (text, expected) in [
            ("lnet:10.0.0.1@tcp", "lnet:10.0.0.1@tcp"),
            ("lnet:10.0.0.1@tcp:", "lnet:10.0.0.1@tcp"),
            ("lnet:10.0.0.1@tcp:/", "lnet:10.0.0.1@tcp"),
            ("lnet:10.0.0.1@tcp0:dir/file", "lnet:10.0.0.1@tcp:/dir/file"),
            ("lnet:10.0.0.1@tcp://dir/./x/", "lnet:10.0.0.1@tcp:/dir/x/"),
            (
                "lnet:fd00::1@tcp,fd00::2@tcp:/a:b@c",
                "lnet:fd00::1@tcp,fd00::2@tcp:/a:b@c",
            ),
            ("zoid:", "zoid:"),
            ("zoid:/a", "zoid:/a"),
            ("zoid::a/.", "zoid:/a/"),
            ("zoid:blue:/a", "zoid:blue:/a"),
            ("zoid:tcp://io7:3334/blue:a", "zoid:tcp://io7:3334/blue:/a"),
            ("bmi:tcp://[fd00::1]:3334:/a", "bmi:tcp://[fd00::1]:3334:/a"),
            ("dir:/srv/a", "dir:/srv/a"),
            ("a:b", "dir:a:b"),
            ("./lnet:x", "dir:./lnet:x"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (text, complaint) in [
            ("lnet:", "a NID such as"),
            ("lnet:10.0.0.1", "a NID such as"),
            ("lnet:10.0.0.300@tcp", "10.0.0.300"),
            ("lnet:10.0.0.1@tcp/dir", "write a ':' between the NID"),
            ("lnet:*@*", "wildcard"),
            ("lnet:10.0.0.1@tcp:/a/../b", "'..'"),
            ("zoid:a b", "not a name of an instance"),
            ("zoid:tcp://io7:3334", "INSTANCE"),
            ("bmi:io7:3334", "bmi:tcp://HOST:PORT"),
            ("bmi:tcp://io7", "HOST:PORT"),
            ("bmi:tcp://io7:0", "HOST:PORT"),
            ("bmi:tcp://io7:1/dir", "write a ':'"),
            ("dir:", "a path must follow"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
        assert!(Address::parse_whole(OsStr::new("/srv")).is_err());
    }
}
