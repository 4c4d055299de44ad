//! Addresses of the method.
//!
//! ```text
//!  zoid://                          the server on this process's I/O node: the only address
//!  zoid://INSTANCE                  | with the extension: another instance on this host,
//!  zoid+tcp://HOST:PORT/INSTANCE    | or a daemon elsewhere
//! ```

use std::path::PathBuf;

use bmi::Error;
use zoid_proto::{Instance, runtime_directories};

use crate::options::Options;

/// The daemon that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// The daemon of the options.
    Own,
    /// Another instance on this host.
    Instance(Instance),
    /// A daemon at HOST:PORT. The instance is part of the name; the daemon checks it.
    Tcp { host: String, instance: Instance },
}

/// The location of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One of these Unix-domain sockets: the first that accepts.
    Unix(Vec<PathBuf>),
    /// HOST:PORT.
    Tcp(String),
}

impl Options {
    /// Returns the location of a daemon.
    pub(crate) fn place(&self, daemon: &Daemon) -> Place {
        match (daemon, &self.socket) {
            (Daemon::Own, Some(path)) => Place::Unix(vec![path.clone()]),
            (Daemon::Own, None) => sockets(&self.instance),
            (Daemon::Instance(instance), _) => sockets(instance),
            (Daemon::Tcp { host, .. }, _) => Place::Tcp(host.clone()),
        }
    }
}

/// Returns the possible sockets of an instance.
fn sockets(instance: &Instance) -> Place {
    let file = instance.socket_file();
    let directories = runtime_directories(sys::effective_user());
    let path = |directory: &String| PathBuf::from(directory).join(&file);
    Place::Unix(directories.iter().map(path).collect())
}

/// Parses an address.
///
/// # Errors
///
/// [`Error::Inval`]: anything but `zoid://`, unless `extended`.
// [ADDR-10]
pub(crate) fn parse(address: &str, extended: bool) -> Result<Daemon, Error> {
    if address == "zoid://" {
        return Ok(Daemon::Own);
    }
    // [ADDR-11]
    if !extended {
        return Err(Error::Inval);
    }
    let instance = |text: &str| text.parse().map_err(|_| Error::Inval);
    if let Some(name) = address.strip_prefix("zoid://") {
        return instance(name).map(Daemon::Instance);
    }
    let rest = address.strip_prefix("zoid+tcp://").ok_or(Error::Inval)?;
    let (host, name) = rest.split_once('/').ok_or(Error::Inval)?;
    let port = host.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(1..))) {
        return Err(Error::Inval);
    }
    Ok(Daemon::Tcp {
        host: host.to_owned(),
        instance: instance(name)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r16_zoid_is_the_only_address() {
        assert_eq!(parse("zoid://", false), Ok(Daemon::Own));
        for bad in [
            "zoid:",
            "zoid:///",
            "zoid://x",
            "ZOID://",
            "",
            "zoid:// ",
            " zoid://",
            "zoid:/",
            "zoid+tcp://h:1/a",
        ] {
            assert_eq!(parse(bad, false), Err(Error::Inval), "{bad}");
        }
    }

    // [ADDR-11]
    #[test]
    fn the_extension_names_instances_and_hosts() {
        let blue: Instance = "blue".parse().unwrap();
        let tcp = Daemon::Tcp {
            host: "io7:3334".to_owned(),
            instance: blue.clone(),
        };
        assert_eq!(parse("zoid://blue", true), Ok(Daemon::Instance(blue)));
        assert_eq!(parse("zoid+tcp://io7:3334/blue", true), Ok(tcp));
        for bad in [
            "zoid:///",
            "zoid://a b",
            "ZOID://",
            "zoid+tcp://io7/blue",
            "zoid+tcp://io7:0/blue",
            "zoid+tcp://io7:x/blue",
            "zoid+tcp://io7:1",
            "zoid+tcp://io7:1/",
        ] {
            assert_eq!(parse(bad, true), Err(Error::Inval), "{bad}");
        }
    }
}
