//! The kinds of messages in logs and on consoles: what each line means, and the next command.
//!
//! The kinds and their meaning come from administrators' public reports and from manuals. Lines belong to a source: the
//! kernel's modules, or a program that loads, mounts, configures or installs them. A line of another module or package is
//! of no source.

use super::named;

/// A kind of message.
pub(super) struct Kind {
    /// What a line of this kind contains.
    pub(super) has: &'static str,
    /// What the message means.
    pub(super) means: &'static str,
    /// The next command; `NID` stands for the node in the message.
    pub(super) next: &'static str,
}

const fn kind(has: &'static str, means: &'static str, next: &'static str) -> Kind {
    Kind { has, means, next }
}

/// A source of messages.
struct Source {
    /// Whether a line is of this source.
    is: fn(&str) -> bool,
    /// The kinds of messages. The first one that fits a line counts.
    kinds: &'static [Kind],
}

/// The place of a kind: its source, and its place there.
pub(super) type Place = (usize, usize);

/// The sources. The first one that has a kind for a line counts.
const SOURCES: [Source; 5] = [
    Source {
        is: is_of_tool,
        kinds: &TOOLS,
    },
    Source {
        is: is_of_mount,
        kinds: &MOUNTS,
    },
    Source {
        is: is_of_loader,
        kinds: &LOADERS,
    },
    Source {
        is: is_of_installer,
        kinds: &INSTALLERS,
    },
    Source {
        is: is_of_kernel,
        kinds: &KERNEL,
    },
];

/// Returns the place of the kind that a line is of.
pub(super) fn place_of(line: &str) -> Option<Place> {
    let mut sources = SOURCES.iter().enumerate();
    sources.find_map(|(source, one)| {
        let of_line = (one.is)(line).then_some(one.kinds)?;
        let kind = of_line.iter().position(|kind| line.contains(kind.has))?;
        Some((source, kind))
    })
}

/// Returns the kind at a place.
pub(super) fn kind_at((source, kind): Place) -> Option<&'static Kind> {
    SOURCES.get(source)?.kinds.get(kind)
}

/// Returns true for lines of the kernel's modules.
pub(super) fn is_of_kernel(line: &str) -> bool {
    const NAMES: [&str; 4] = ["LNet: ", "LNetError: ", "Lustre: ", "LustreError: "];
    NAMES.iter().any(|name| line.contains(name))
}

/// Returns true for the number of an error and its text, as `lnetctl` prints them: two lines that were joined.
pub(super) fn is_block(line: &str) -> bool {
    line.contains("errno: -") && line.contains("descr: ")
}

fn is_of_tool(line: &str) -> bool {
    const NAMES: [&str; 4] = [
        "LNET configure error",
        "LNET unconfigure error",
        NOT_OPENED,
        "couldn't query intf",
    ];
    let is_refused = line.contains(REFUSED) && (line.contains("error") || line.contains("failed"));
    is_refused || is_block(line) || NAMES.iter().any(|name| line.contains(name))
}

/// Returns true for lines of programs that mount a file system of Lustre.
pub(super) fn is_of_mount(line: &str) -> bool {
    const NAMES: [&str; 4] = [
        "mount.lustre: ",
        "mount -t lustre ",
        "filesystem type 'lustre'",
        "filesystem type lustre",
    ];
    is_of_busybox(line) || NAMES.iter().any(|name| line.contains(name))
}

/// Returns true for the message of BusyBox about a mount whose source names a server by a NID, or by a name with a net.
/// Other file systems have an `@` there, too.
fn is_of_busybox(line: &str) -> bool {
    let text = line.split_once("mount: mounting ");
    let source = text.and_then(|(_, text)| text.split(" on ").next());
    source.is_some_and(named::is_source)
}

/// The modules of LNet and of the file system above.
const MODULES: [&str; 34] = [
    "fid",
    "fld",
    "kfilnd",
    "kgnilnd",
    "ko2iblnd",
    "ksocklnd",
    "ldiskfs",
    "lfsck",
    "libcfs",
    "lmv",
    "lnet",
    "lnet_selftest",
    "lod",
    "lov",
    "lquota",
    "lustre",
    "mdc",
    "mdd",
    "mdt",
    "mgc",
    "mgs",
    "obdclass",
    "obdecho",
    "ofd",
    "osc",
    "osd_ldiskfs",
    "osd_zfs",
    "osp",
    "ost",
    "ptlrpc",
    "ptlrpc_gss",
    "llog_test",
    "kiliblnd",
    "lvfs",
];

/// Programs that load modules, with what stands behind their names.
const LOADING: [&str; 4] = ["modprobe: ", "insmod: ", "rmmod: ", "depmod: "];

/// What the kernel says of a module that it loads, behind the name of the module.
const LOADED: [&str; 5] = [
    "Unknown symbol ",
    "disagrees about version of symbol ",
    "unknown parameter ",
    "version magic ",
    "invalid for parameter ",
];

/// The beginnings of the names of symbols of LNet.
const SYMBOLS: [&str; 3] = ["LNet", "lnet_", "libcfs_"];

/// Returns true for lines about modules of LNet or the file system, of a program that loads them or of the kernel.
fn is_of_loader(line: &str) -> bool {
    let by_program = LOADING.iter().find_map(|name| line.split_once(name));
    if let Some((_, text)) = by_program {
        return text.split([' ', '\t', '=']).any(is_module);
    }
    LOADED.iter().any(|said| {
        line.split_once(said).is_some_and(|(before, after)| {
            let tag = before
                .split_whitespace()
                .rev()
                .find(|one| one.ends_with(':'));
            tag.is_some_and(is_module) || SYMBOLS.iter().any(|symbol| after.starts_with(symbol))
        })
    })
}

/// Returns true if a word is the name or the file of a module of LNet or the file system.
fn is_module(word: &str) -> bool {
    let file = word.rsplit('/').next().unwrap_or(word);
    let name = file.trim_matches(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    let name = name.split(".ko").next().unwrap_or(name);
    MODULES.contains(&name)
}

/// Returns true for lines about packages of the file system.
fn is_of_installer(line: &str) -> bool {
    const NAMES: [&str; 5] = ["lustre", "lnet", "kmod-lustre", "liblustre", "liblnet"];
    let in_name = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    let machine = named::machine_in(line);
    let mut words = line.split(|one| !in_name(one));
    let is_named =
        words.any(|word| machine != Some(word) && NAMES.iter().any(|name| word.starts_with(name)));
    is_named || BUILDS.iter().any(|one| line.contains(one))
}

/// What only a build of the file system's modules says.
const BUILDS: [&str; 3] = [
    "no OFED nor kernel OpenIB gen2 headers",
    "Need \"quilt\" or \"patch\"",
    "zfs osd cannot be built",
];

/// What to do if a node does not answer.
pub(super) const PING: &str = "lnetctl ping NID; then `finerail doctor NID` from this machine";
/// [`PING`] for nodes whose address says nothing to `finerail doctor`.
pub(super) const PING_ONLY: &str = "lnetctl ping NID";

const OTHERWISE: &str =
    "what came is not what this end's LNet expects: another program, or an incompatible release";
const NO_MGS: &str =
    "no answer of the MGS: not started, not reached, another accept_port or network, or a firewall";
const FOR_KERNEL: &str = "uname -r; modinfo -F vermagic lnet: install the modules for this kernel, or boot the kernel that they are for";
const NOT_STARTED: &str = "LNet is not started on this machine";
const START: &str = "modprobe lnet; lnetctl lnet configure; then lnetctl net show";
const OTHER_KERNEL: &str =
    "the package's modules are built for another kernel or other drivers than this machine has";
const SAME_KERNEL: &str = "uname -r; take the package for this kernel, or the kernel that the package needs, or build the \
                           modules here (dkms)";

/// What a line of a tool contains whose request the kernel refused.
const REFUSED: &str = "IOC_LIBCFS_";

/// What a line of a tool contains that cannot reach the module.
const NOT_OPENED: &str = "opening /dev/lnet failed";

const PRESENT: &str =
    "this node has it already: the network, route or peer is not added again, and stays as it is";
const SHOW: &str = "lnetctl net show; lnetctl route show; lnetctl peer show";

/// Messages of `lnetctl` and `lctl`.
const TOOLS: [Kind; 17] = [
    kind("File exists", PRESENT, SHOW),
    kind("errno: -17 ", PRESENT, SHOW),
    kind(
        "couldn't query intf",
        "LNet was configured before the interface was there, or the interface has another name",
        "ip addr; then start LNet after the network (`After=network-online.target`), or `finerail node --wait 60s`",
    ),
    kind(
        "cannot add network",
        "the network was not added: its interface is absent, down or without an address, or a setting is not valid",
        "ip addr; dmesg | tail; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "cannot del network",
        "the network was not deleted: this node does not have it, or it is in use",
        "lnetctl net show",
    ),
    kind(
        "cannot add route",
        "the route was not added: the gateway is on no local network, or the network is local",
        "lnetctl net show; lnetctl route show",
    ),
    kind(
        "cannot del route",
        "the route was not deleted: this node does not have it",
        "lnetctl route show",
    ),
    kind(
        "cannot add peer",
        "the peer was not added: its NIDs belong to another peer, or are not valid",
        "lnetctl peer show",
    ),
    kind(
        "cannot del peer",
        "the peer was not deleted: this node does not have it, or it is locked or in use",
        "lnetctl peer show",
    ),
    kind("failed to ping", "the node does not answer", PING),
    kind("failed to discover", "the node does not answer", PING),
    kind("not configured", NOT_STARTED, START),
    kind("Network is down", NOT_STARTED, START),
    kind(
        NOT_OPENED,
        "the module lnet is not loaded on this machine, or this user may not use it",
        "modprobe lnet, as root; dmesg | tail says why it is not loaded",
    ),
    kind(
        "LNET configure error",
        "LNet did not start with the options of its module",
        "dmesg | tail; `finerail lint /etc/modprobe.d/lnet.conf --interfaces` compares the options with the interfaces",
    ),
    kind(
        "LNET unconfigure error",
        "LNet does not stop while something uses it",
        "umount -a -t lustre; lustre_rmmod, or lsmod | grep lnet shows what uses it",
    ),
    kind(
        REFUSED,
        "LNet refused a request of lctl",
        "dmesg | tail; lnetctl net show",
    ),
];

/// Messages of `mount.lustre` and `mount`.
const MOUNTS: [Kind; 19] = [
    kind(
        "failed: No such device or address",
        "the device is not there: another path, or a disk that this machine does not see yet",
        "lsblk; multipath -ll; dmesg | tail",
    ),
    kind(
        "failed: No such device",
        "the client's modules are not loaded on this machine",
        "modprobe lustre; lsmod | grep lnet; are the modules built for the running kernel (uname -r)?",
    ),
    kind(
        "filesystem type",
        "the client's programs or modules are not installed on this machine",
        "ls /sbin/mount.lustre; modprobe lustre",
    ),
    kind(
        "failed: File exists",
        "the file system is mounted there already, or another mount of it is under way",
        "grep lustre /proc/mounts; mount one at a time",
    ),
    kind(
        "failed: Operation already in progress",
        "the target or the file system is mounted already, or a mount or unmount of it is under way",
        "grep lustre /proc/mounts; lctl dl; wait for the other mount or unmount",
    ),
    kind(
        "endpoint shutdown",
        "the server or this client stops, or their connection was ended meanwhile",
        PING,
    ),
    kind("Is the MGS running?", NO_MGS, PING),
    kind("failed: Input/output error", NO_MGS, PING),
    kind(
        "Connection timed out",
        "nothing answers: a firewall or a cloud's security group drops port 988, or the server is down",
        PING,
    ),
    kind(
        "failed: No such file or directory",
        "the MGS does not know this file system or target: another name, another MGS, or a target that is not registered yet",
        "on the MGS: lctl get_param mgs.MGS.filesystems; compare the name behind `:/`; for a target: mount the MGT first",
    ),
    kind(
        "failed: Invalid argument",
        "an option of the mount, a parameter of the file system or the NID of the MGS is not valid on this release",
        "dmesg | tail names it; lctl --version on both ends",
    ),
    kind(
        "failed: Address already in use",
        "a target with this name or index is there already",
        "lctl dl; tunefs.lustre --dryrun the device: the index of the target",
    ),
    kind(
        "failed: Transport endpoint is not connected",
        "no connection to a server was made",
        PING,
    ),
    kind("failed: Network is down", NOT_STARTED, START),
    kind(
        "failed: Network is unreachable",
        "no path leads to the server's network",
        "ip route get the server's address; lnetctl route show -v",
    ),
    kind(
        "failed: No route to host",
        "no path leads to the server",
        "ip route get the server's address; lnetctl route show -v",
    ),
    kind(
        "parse NID",
        "the name or NID of the MGS is not valid, or the name has no address",
        "getent hosts the name; the form is ADDRESS@tcp:/NAME",
    ),
    kind(
        "failed: Operation not permitted",
        "the user may not mount, or the server's nodemap does not let this client in",
        "mount as root; on the MGS: lctl nodemap_test_nid ADDRESS@NET of the client",
    ),
    kind(
        "failed: ",
        "the mount failed",
        "dmesg | tail has the kernel's reason",
    ),
];

/// Messages of programs that load modules, and of the kernel about loading them.
const LOADERS: [Kind; 19] = [
    kind(
        "Required key not available",
        "the machine starts with Secure Boot, and does not know the key that signed the module, or the module has none",
        "mokutil --sb-state; mokutil --import the key that signed the modules, or install signed modules",
    ),
    kind(
        "Key was rejected by service",
        "the machine starts with Secure Boot, and does not know the key that signed the module",
        "mokutil --sb-state; mokutil --import the key that signed the modules, or install signed modules",
    ),
    kind(
        "Exec format error",
        "the module was built for another kernel than the running one",
        FOR_KERNEL,
    ),
    kind(
        "Invalid module format",
        "the module was built for another kernel than the running one",
        FOR_KERNEL,
    ),
    kind(
        "version magic",
        "the module was built for another kernel than the running one",
        FOR_KERNEL,
    ),
    kind(
        "Unknown symbol in module",
        "the modules do not fit each other, the kernel or its drivers, or an option of modprobe.d is not known",
        "dmesg | tail names the symbol or option; `finerail lint /etc/modprobe.d/lnet.conf`",
    ),
    kind(
        "disagrees about version of symbol",
        "the module was built against another release of the module that has this symbol: LNet, or the cards' drivers",
        "modinfo -F vermagic the module; build it against the running kernel, LNet and drivers, or install what fits them",
    ),
    kind(
        "needs unknown symbol",
        "the module needs a symbol that no installed module has: another release, another build, or a module is not installed",
        "modinfo -F depends the module; install modules of one build for this kernel and its drivers",
    ),
    kind(
        "Unknown symbol",
        "the module needs a symbol that no loaded module has: another release, another build, or a module is not installed",
        "modinfo -F depends the module; install modules of one build for this kernel (uname -r) and its drivers",
    ),
    kind(
        "unknown parameter",
        "an option of modprobe.d is not known to this release of the module",
        "modinfo -p the module; `finerail lint /etc/modprobe.d/lnet.conf`",
    ),
    kind(
        "invalid for parameter",
        "the value of an option of modprobe.d is not valid, and the module is not loaded",
        "modinfo -p the module; `finerail lint /etc/modprobe.d/lnet.conf`",
    ),
    kind(
        "not found",
        "no module of this name is installed for the running kernel",
        "uname -r; find /lib/modules -name 'lnet.ko*': install the modules for this kernel, then depmod -a",
    ),
    kind(
        "could not find module",
        "no module of this name is installed for the running kernel",
        "uname -r; find /lib/modules -name 'lnet.ko*': install the modules for this kernel, then depmod -a",
    ),
    kind(
        "Network is down",
        "LNet did not start with the options of its module: no usable interface",
        "ip addr; `finerail lint /etc/modprobe.d/lnet.conf --interfaces` compares the options with it",
    ),
    kind(
        "Operation not permitted",
        "the user may not load modules: no root, a container, or the kernel is locked down",
        "id; mokutil --sb-state; load the modules on the host as root",
    ),
    kind(
        "Cannot allocate memory",
        "the kernel has too little memory for the module",
        "free -m; dmesg | tail",
    ),
    kind(
        "is in use",
        "the module is in use and stays loaded",
        "umount -a -t lustre; lustre_rmmod, or lsmod | grep lnet shows what uses it",
    ),
    kind(
        "could not insert",
        "the module was not loaded",
        "dmesg | tail has the kernel's reason",
    ),
    kind(
        "Failed to insert",
        "the module was not loaded",
        "dmesg | tail has the kernel's reason",
    ),
];

/// Messages of package managers and of builds.
const INSTALLERS: [Kind; 14] = [
    kind("nothing provides kernel", OTHER_KERNEL, SAME_KERNEL),
    kind("nothing provides ksym", OTHER_KERNEL, SAME_KERNEL),
    kind(
        "nothing provides",
        "the package needs another one that no repository has",
        "dnf repoquery --requires the package; enable the repository that has what it needs",
    ),
    kind("Error: Package: ", OTHER_KERNEL, SAME_KERNEL),
    kind(
        "Unable to locate package",
        "the repositories have no such package: for modules, none for the running kernel",
        "uname -r; apt-cache search lustre-client-modules; boot a kernel of the list, or install the dkms package",
    ),
    kind(
        "No match for argument",
        "the repositories have no such package",
        "dnf repolist; dnf search lustre: is the repository for this release of the system enabled?",
    ),
    kind(
        "Unable to find a match",
        "the repositories have no such package",
        "dnf repolist; dnf search lustre: is the repository for this release of the system enabled?",
    ),
    kind("but it is not installable", OTHER_KERNEL, SAME_KERNEL),
    kind(
        "but it is not going to be installed",
        OTHER_KERNEL,
        SAME_KERNEL,
    ),
    kind(
        "no OFED nor kernel OpenIB gen2 headers",
        "the build finds no headers of the cards' drivers that this release knows",
        "ls /usr/src/ofa_kernel; install the drivers' development package, or a release that knows these drivers",
    ),
    kind(
        "Need \"quilt\" or \"patch\"",
        "the build needs a program that is not installed",
        "dnf install patch, then build again",
    ),
    kind(
        "zfs osd cannot be built",
        "the build finds no headers of ZFS that this release knows",
        "dkms status zfs; install the development package of a ZFS that this release knows, or build a client only",
    ),
    kind(
        "Consult /var/lib/dkms/lustre",
        "the modules were not built for this kernel, so that none are there to load",
        "tail the make.log that the line names; install the headers of the running kernel (uname -r), or a release that \
         knows this kernel; then dkms autoinstall",
    ),
    kind(
        "scriptlet fail",
        "the package's own step after its installation failed: for a dkms package, the build of the modules",
        "dkms status; the make.log below /var/lib/dkms says why",
    ),
];

/// What stands before the number of an error.
pub(super) const RC: &str = "rc = -";

/// Messages of the kernel's modules.
const KERNEL: [Kind; 37] = [
    kind(
        "interfaces found",
        "an interface of the configuration is absent, down, or has no address",
        "ip addr; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "starting up LNI",
        "LNet could not start on a network, and is not there at all",
        "ip addr; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "Can't load LND",
        "the module of this type of network cannot be loaded: it is not installed, or was built for other drivers",
        "modprobe -v the module; dmesg shows which symbols differ: install the modules that were built for this kernel \
         and these drivers",
    ),
    kind(
        "failed from the MGS",
        "the MGS did not give the configuration: not reached, a name that it does not know, or a release that does not fit",
        PING,
    ),
    kind(
        "failed from MGS",
        "the MGS did not give the configuration: not reached, a name that it does not know, or a release that does not fit",
        PING,
    ),
    kind("Is the MGS running?", NO_MGS, PING),
    kind(
        "endpoint shutdown",
        "the server or this client stops, or their connection was ended meanwhile",
        PING,
    ),
    kind(
        "Timed out tx",
        "messages to it left this node and were not answered within the LND's timeout: it is overloaded or down, or its fabric is",
        PING,
    ),
    kind(
        "timed out for slow reply",
        "a request waited for its reply too long: the server is overloaded, or a request or reply was lost",
        PING,
    ),
    kind(
        "timed out for sent delay",
        "a request waited in this node's own queue: credits are exhausted, or the LND makes no progress",
        "lnetctl net show -v; lnetctl peer show --nid NID -v: look at the minimum of tx credits",
    ),
    kind(
        "failed due to network error",
        "the LND could not deliver a request",
        PING,
    ),
    kind(
        "was evicted by",
        "a server has dropped this client, which did not answer a callback in time",
        "look at the server's log at that time; then the network between the two",
    ),
    kind(
        "was lost; in progress operations",
        "the connection to a service is gone; the client tries the next server of the service",
        PING,
    ),
    kind(
        "was refused",
        "no LNet listens there: not started, another accept_port, or a firewall that rejects",
        PING,
    ),
    kind(
        "No matching NI",
        "that node dialled this one for a NID that this one does not have: a wrong peer, gateway or number of a net there",
        "lnetctl net show here; lnetctl peer show and lnetctl route show there",
    ),
    kind(
        "insecure port",
        "that node dialled from a port of 1024 or above, which `accept=secure` refuses",
        "let that node dial from a privileged port, or `options lnet accept=all` here",
    ),
    kind(
        "has gone from up to down",
        "the gateway of a route counts as dead: it does not answer, or says that its other side is down",
        "lnetctl route show -v; lnetctl ping NID; on the gateway: lnetctl net show",
    ),
    kind(
        "NIs in recovery",
        "an interface lost health by failures, and LNet pings it until it is well",
        "lnetctl peer show --nid NID -v 3; lnetctl net show -v 3: the health, and what failed",
    ),
    kind(
        "failed to find interface",
        "the configuration names an interface that this machine does not have",
        "ip addr; `finerail lint FILE --interfaces` compares the configuration with it",
    ),
    kind(
        "has no available nets",
        "no local net and no route leads to the net of this NID",
        "lnetctl net show; lnetctl route show",
    ),
    kind(
        "Error sending",
        "LNet could not send a message",
        "lnetctl route show -v; lnetctl net show",
    ),
    kind(
        "was reset: is it running a compatible version",
        "the other end reset the connection: it does not know this node's net, or stopped",
        PING,
    ),
    kind("Protocol error", OTHERWISE, PING),
    kind("Unknown message type", OTHERWISE, PING),
    kind("Unexpected type", OTHERWISE, PING),
    kind("Mismatched types", OTHERWISE, PING),
    kind(
        "Timed out RDMA with",
        "the connection's transfers were not completed within the LND's timeout: that node or the fabric stands still",
        PING,
    ),
    kind(
        "Can't start acceptor",
        "the port of LNet is taken on this machine",
        "ss -ltnp 'sport = :988'",
    ),
    kind("Can't connect to", "no connection could be made", PING),
    kind(
        "Error -104",
        "the other end reset the connection: it does not know this node's net, or stopped",
        PING,
    ),
    kind(
        "Unexpected error",
        "a connection failed while it was made",
        PING,
    ),
    kind(
        "No route to",
        "no local net and no live route leads there",
        "lnetctl route show -v; lnetctl net show",
    ),
    kind(
        "no route to",
        "no local net and no live route leads there",
        "lnetctl route show -v; lnetctl net show",
    ),
    kind(
        "too fragmented",
        "the peer's map_on_demand or the number of its fragments differs",
        "lnetctl net show -v 4 on both: compare map_on_demand and peer_credits",
    ),
    kind(
        "Dropping PUT",
        "a message came for a service that is not there",
        "lctl dl on this node: is the target mounted?",
    ),
    kind(
        "Dropping GET",
        "a message came for a service that is not there",
        "lctl dl on this node: is the target mounted?",
    ),
    kind(RC, "an operation failed", PING),
];
