//! The options after `-o`.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Parser;
use files::mount::{Locking, Options, THREADS_MAX};

use crate::files::connections::ConnectionArgs;

/// The limit of the time for which names and attributes are cached, in seconds.
const CACHE_MAX: f64 = 3600.0;

/// Options that are ignored: mount(8) handles them itself, or they hold for every mount here.
const PASSED_OVER: [&str; 19] = [
    "auto",
    "defaults",
    "dev",
    "diratime",
    "group",
    "loud",
    "nodev",
    "nodiratime",
    "noauto",
    "nofail",
    "nouser",
    "owner",
    "relatime",
    "norelatime",
    "silent",
    "strictatime",
    "user",
    "users",
    "_netdev",
];

/// Options that say how servers are reached, each with the argument of other commands that it stands for.
const CONNECTION: [(&str, &str); 10] = [
    ("timeout", "--timeout"),
    ("config", "--config"),
    ("port", "--port"),
    ("accept", "--accept"),
    ("congestion", "--congestion"),
    ("router_check_interval", "--router-check-interval"),
    ("stats", "--stats"),
    ("mode", "--mode"),
    ("block", "--block"),
    ("failover", "--failover"),
];

/// The parsed options of a mount.
pub(super) struct MountOptions {
    pub(super) mount: Options,
    pub(super) connection: ConnectionArgs,
}

/// The arguments that [`CONNECTION`] names.
#[derive(clap::Parser)]
#[command(no_binary_name = true, args_override_self = true)]
struct ConnectionOptions {
    #[command(flatten)]
    args: ConnectionArgs,
}

impl MountOptions {
    /// Parses lists of options. Of two options that contradict each other, the later one holds. With `sloppy`,
    /// unknown options are ignored.
    pub(super) fn parse(lists: &[String], sloppy: bool) -> anyhow::Result<Self> {
        let mut mount = Options::default();
        let mut connection = Vec::new();
        for option in lists.iter().flat_map(|list| list.split(',')) {
            if let Some(argument) = connection_argument(option) {
                connection.push(argument);
                continue;
            }
            let known = set(&mut mount, option)?;
            if !known && !sloppy {
                bail!(
                    "-o {option}: no such option; the options are ro, rw, allow_other, actimeo=SECONDS, acregmin=SECONDS, \
                     acdirmin=SECONDS, noac, threads=N, suid, noexec, noatime, sync, locks=gateway, locks=local, \
                     locks=refuse, timeout=SECONDS, config=FILE, port=PORT, … and those of mount(8)"
                );
            }
        }
        let mut connection = ConnectionOptions::try_parse_from(&connection).map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            anyhow!("-o: {}", line.trim_start_matches("error: "))
        })?;
        connection.args.of_mount = true;
        Ok(Self {
            mount,
            connection: connection.args,
        })
    }
}

/// Returns the argument that an option of [`CONNECTION`] stands for; `None` for another option.
fn connection_argument(option: &str) -> Option<String> {
    let (name, value) = option.split_once('=')?;
    let (_, argument) = CONNECTION.iter().find(|(known, _)| *known == name)?;
    Some(format!("{argument}={value}"))
}

/// Sets an option. Returns `false` if there is no option of this name.
fn set(mount: &mut Options, option: &str) -> anyhow::Result<bool> {
    match option {
        "ro" => mount.read_only = true,
        "rw" => mount.read_only = false,
        "allow_other" => mount.allow_other = true,
        "suid" => mount.suid = true,
        "nosuid" => mount.suid = false,
        "exec" => mount.exec = true,
        "noexec" => mount.exec = false,
        "atime" => mount.no_access_time = false,
        "noatime" => mount.no_access_time = true,
        "sync" => mount.write_behind = false,
        "async" => mount.write_behind = true,
        "locks=gateway" => mount.locks = Locking::Gateway,
        "locks=local" => mount.locks = Locking::Local,
        "locks=refuse" => mount.locks = Locking::Refuse,
        "noac" => {
            (mount.file_attributes, mount.directory_attributes) = (Duration::ZERO, Duration::ZERO);
            mount.write_behind = false;
        }
        "ac" => {
            let usual = Options::default();
            mount.file_attributes = usual.file_attributes;
            mount.directory_attributes = usual.directory_attributes;
        }
        "" => {}
        other => return set_value(mount, other),
    }
    Ok(true)
}

fn set_value(mount: &mut Options, option: &str) -> anyhow::Result<bool> {
    if let Some((name, seconds)) = option.split_once('=')
        && matches!(name, "actimeo" | "acregmin" | "acdirmin")
    {
        let time = seconds
            .parse()
            .ok()
            .filter(|seconds| (0.0..=CACHE_MAX).contains(seconds))
            .map(Duration::from_secs_f64)
            .with_context(|| format!("-o {option}: a number of seconds, 0 to {CACHE_MAX}"))?;
        if name != "acdirmin" {
            mount.file_attributes = time;
        }
        if name != "acregmin" {
            mount.directory_attributes = time;
        }
        return Ok(true);
    }
    if let Some(threads) = option.strip_prefix("threads=") {
        mount.threads = threads
            .parse()
            .ok()
            .filter(|threads| (1..=THREADS_MAX).contains(threads))
            .with_context(|| format!("-o {option}: a number, 1 to {THREADS_MAX}"))?;
        return Ok(true);
    }
    let is_for_others = option.starts_with("x-") || option.starts_with("comment=");
    Ok(is_for_others || PASSED_OVER.contains(&option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> anyhow::Result<Options> {
        let parsed = MountOptions::parse(&[list.to_owned()], false)?;
        Ok(parsed.mount)
    }

    #[test]
    fn options_are_set() {
        let mount = parse("ro,allow_other,actimeo=0.5,threads=4,suid,noexec,noatime").unwrap();
        assert!(mount.read_only && mount.allow_other && mount.suid);
        assert!(!mount.exec && mount.no_access_time);
        let half = Duration::from_millis(500);
        assert_eq!(mount.file_attributes, half);
        assert_eq!(mount.directory_attributes, half);
        assert_eq!(mount.threads, 4);
        assert!(mount.write_behind && !parse("sync").unwrap().write_behind);
        assert_eq!(mount.locks, Locking::Gateway);
        assert_eq!(parse("locks=local").unwrap().locks, Locking::Local);
        assert_eq!(parse("locks=refuse").unwrap().locks, Locking::Refuse);
    }

    #[test]
    fn the_times_of_attributes_are_named_as_those_of_nfs() {
        let times = |list: &str| {
            let mount = parse(list).unwrap();
            (mount.file_attributes, mount.directory_attributes)
        };
        let [none, one, two, three] = [0, 1, 2, 3].map(Duration::from_secs);
        assert_eq!(times("rw"), (one, one));
        assert_eq!(times("actimeo=2"), (two, two));
        assert_eq!(times("acregmin=2,acdirmin=3"), (two, three));
        assert_eq!(times("actimeo=2,noac"), (none, none));
        assert_eq!(times("noac,acdirmin=3"), (none, three));
        assert_eq!(times("noac,ac"), (one, one));
        // NFS writes through with noac, too.
        assert!(!parse("noac").unwrap().write_behind);
    }

    #[test]
    fn the_later_option_holds() {
        assert!(!parse("ro,rw").unwrap().read_only);
        assert!(parse("rw,ro").unwrap().read_only);
    }

    #[test]
    fn options_of_mount_are_passed_over() {
        parse("defaults,noauto,nofail,_netdev,x-systemd.automount,comment=a b,").unwrap();
    }

    #[test]
    fn bad_options_are_refused() {
        for option in [
            "rx",
            "actimeo=",
            "actimeo=-1",
            "acregmin=nan",
            "acdirmin=3601",
            "threads=0",
            "threads=257",
            "ro=1",
            "locks=",
            "locks=all",
        ] {
            let error = parse(option).unwrap_err().to_string();
            assert!(error.contains(option), "{error}");
        }
        assert!(MountOptions::parse(&["rx".to_owned()], true).is_ok());
    }
}
