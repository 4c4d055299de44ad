//! The troubles that keep a file system from being mounted, or from working once it is.

/// How bad a trouble is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The mount does not complete.
    Fails,
    /// The check ended before it knew.
    Unknown,
    /// The mount completes, but a part does not work, or not any more after the next failure.
    Suffers,
}

/// A kind of trouble.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name, which stays.
    pub name: &'static str,
    /// How bad it is. What [`Severity::Suffers`] at an ordinary target, [`Severity::Fails`] at the one that holds the root
    /// directory; what is [`Severity::Unknown`] at an ordinary target, leaves the mount.
    pub severity: Severity,
    /// What is wrong, behind the name of what it concerns.
    pub means: &'static str,
    /// The one thing to change.
    pub to_do: &'static str,
}

macro_rules! kinds {
    ($($constant:ident $name:literal $severity:ident $means:literal $to_do:literal)*) => {
        $(pub(super) static $constant: Kind = Kind {
            name: $name,
            severity: Severity::$severity,
            means: $means,
            to_do: $to_do,
        };)*
        /// All kinds, the most urgent first.
        pub static KINDS: &[&Kind] = &[$(&$constant),*];
    };
}

kinds! {
    MGS_NO_NET "mgs-no-net" Fails
        "is on a net of which this machine has no interface and no route"
        "give this machine an interface on that net, or a route to it, and name the document with --config"
    MGS_NO_DEVICE "mgs-no-device" Fails
        "is on an o2ib net for which this machine has no RDMA device"
        "give this machine an RDMA device with an address of that net, or a route to it, and name the document with --config"
    MGS_PORT_CLOSED "mgs-port-closed" Fails
        "refuses the connection: no LNet runs there on this port"
        "start LNet and the MGS on that node, or give the right --port"
    MGS_NOT_LNET "mgs-not-lnet" Fails
        "is reached, but what listens there does not accept this machine as an LNet node"
        "give --privileged if the node accepts only privileged ports; otherwise correct the NID"
    MGS_UNREACHABLE "mgs-unreachable" Fails
        "does not answer"
        "correct the NID, or bring up the node, its network or the firewall between"
    MGS_SILENT "mgs-silent" Fails
        "answers pings, but not the connect: the MGS hangs there, or no Lustre runs there"
        "look at that node: whether it runs the MGS, and whether the MGS hangs; otherwise name the node that runs it"
    MGS_ABSENT "mgs-absent" Fails
        "runs Lustre, but the MGS is not started there"
        "mount the MGT there, or name its failover node behind a colon"
    MGS_NOT_FOUND "mgs-not-found" Fails
        "was not reached, and may run the MGS, which is not found on the other nodes"
        "bring up the node that was not reached, its network, or the way to it from here (LNet, route, firewall)"
    MGS_STARTING "mgs-starting" Fails
        "is starting, and accepts no connection yet"
        "wait, and check again"
    MGS_FLAVOR "mgs-flavor" Fails
        "wants another security flavor than null"
        "give this client the keys that the rule of the MGS asks for"
    MGS_BANNED "mgs-banned" Fails
        "does not let this client in"
        "allow this client in the nodemap of the servers, or lift its ban"
    MGS_PROTOCOL "mgs-protocol" Fails
        "rejects what the connect asks for"
        "compare the release of the server with that of the clients"
    MGS_GARBAGE "mgs-garbage" Fails
        "answers with bytes that are no RPC"
        "correct the NID: what answers there is no MGS"
    MGS_LATE "mgs-late" Fails
        "answers too slowly"
        "look for the load on the MGS, or give a longer --timeout"
    MGS_ERROR "mgs-error" Fails
        "answers with an error"
        "look into the log of the MGS"
    NO_FILE_SYSTEM "no-file-system" Fails
        "is no file system of this MGS"
        "correct the name behind the slash, or start the file system's first target once"
    LOG_UNREADABLE "log-unreadable" Fails
        "has a configuration log that cannot be read"
        "regenerate the log (writeconf), or look into the log of the MGS"
    LOG_UNKNOWN "log-unknown" Fails
        "has a configuration log with commands that a client may reject"
        "compare the release of the client with that of the servers"
    LOG_EMPTY "log-empty" Fails
        "has a configuration log without a metadata target"
        "start the metadata target once, so that it registers"
    LOG_NO_ROOT "log-no-root" Fails
        "has a configuration log without MDT0000, which holds the root directory"
        "start MDT0000 once, so that it registers"
    UNFINISHED "check-unfinished" Unknown
        "was not asked to the end"
        "check again, and give a longer --timeout if the time was over"
    NOT_EXAMINED "not-examined" Unknown
        "is on a net on which this check cannot speak from here"
        "do away with what kept it from speaking, or examine that net with the tools of the node that runs here (lnetctl ping)"
    FLAVOR_UNCLEAR "flavor-unclear" Unknown
        "may ask for a security flavor with which this check cannot ask"
        "mount with that flavor, or correct the rule (srpc.flavor)"
    FLAVOR_NEEDED "flavor-needed" Unknown
        "asks for a security flavor, and this check does not know whether this machine has the keys"
        "see that this client has the keys that the rule asks for"
    TARGET_UNPROVEN "target-unproven" Unknown
        "has a usual node that was not reached, and is not known to run on a failover node"
        "ask the target itself (--targets), or bring up its usual node or the way to that node"
    TARGET_SLOW "target-slow" Unknown
        "answers too slowly for this check"
        "look for the load on that server, and check again"
    TARGET_NO_NID "target-no-nid" Suffers
        "has no NID in the configuration log"
        "regenerate the log (writeconf) with LNet configured on the server"
    TARGET_BAD_NID "target-bad-nid" Suffers
        "has a NID in the configuration log that is none"
        "replace the NIDs of the target (lctl replace_nids)"
    TARGET_HERE "target-here" Suffers
        "has a NID of this very machine in the configuration log"
        "replace the NIDs of the target (lctl replace_nids): the server registered with an address that is not its own"
    TARGET_NO_NET "target-no-net" Suffers
        "is only on nets of which this machine has no interface and no route"
        "give this machine a route to that net"
    TARGET_NO_DEVICE "target-no-device" Suffers
        "is only on o2ib nets for which this machine has no RDMA device"
        "give this machine an RDMA device with an address of that net, or a route to it, and name the document with --config"
    TARGET_PORT_CLOSED "target-port-closed" Suffers
        "is on a node where no LNet runs on this port"
        "start LNet on that node"
    TARGET_NOT_LNET "target-not-lnet" Suffers
        "is on a node that does not accept this machine as an LNet node"
        "let that node have the NID that the log names (lctl replace_nids), or give --privileged"
    TARGET_UNREACHABLE "target-unreachable" Suffers
        "does not answer on any of its NIDs"
        "bring up the node, its network or the firewall between"
    TARGET_AWAY "target-elsewhere" Suffers
        "is served by a node that does not answer, although another of its nodes does"
        "bring up the way to that node, or move the target to the node that answers"
    TARGET_NOT_FOUND "target-not-found" Suffers
        "may run on a node that was not reached, and is not found on the other nodes"
        "bring up the node that was not reached, its network, or the way to it from here (LNet, route, firewall)"
    TARGET_SILENT "target-silent" Suffers
        "is on a node that answers pings, but not the connect: the target hangs there, or no Lustre runs there"
        "look at that node: whether it runs the target, and whether the target hangs"
    TARGET_LATE "target-late" Suffers
        "accepts the connect, and then does not answer"
        "look for the load on that server, and into its log"
    TARGET_ABSENT "target-absent" Suffers
        "is started on none of its nodes"
        "mount the target on one of its servers"
    TARGET_BANNED "target-banned" Suffers
        "does not let this client in"
        "allow this client in the nodemap of the servers, or lift its ban"
    TARGET_FLAVOR "target-flavor" Suffers
        "wants another security flavor than null"
        "give this client the keys that the rule of the file system asks for"
    TARGET_READ_ONLY_MAP "target-read-only-map" Suffers
        "accepts this client only for reading"
        "mount with -o ro, or change the nodemap"
    TARGET_PROTOCOL "target-protocol" Suffers
        "rejects what the connect asks for"
        "compare the release of the server with that of the clients"
    TARGET_STARTING "target-starting" Suffers
        "is starting, and accepts no connection yet"
        "wait, and check again"
    TARGET_RECOVERING "target-recovering" Suffers
        "is in recovery"
        "wait until the recovery is over, and check again"
    TARGET_GARBAGE "target-garbage" Suffers
        "answers with bytes that are no RPC"
        "replace the NIDs of the target (lctl replace_nids): what answers there is no Lustre server"
    TARGET_ERROR "target-error" Suffers
        "answers with an error"
        "look into the log of that server"
    TARGET_FULL "target-full" Suffers
        "has no space or no inodes left"
        "remove files from that target, or extend it"
    TARGET_FROZEN "target-frozen" Suffers
        "is read-only on its server"
        "look into the log of that server: its device has failed or was made read-only"
    NID_UNUSABLE "nid-unusable" Suffers
        "has a NID in the configuration log that is none, or one of this very machine, beside others"
        "replace the NIDs of the target (lctl replace_nids)"
    ON_FAILOVER "target-on-failover" Suffers
        "is only reached on a failover node"
        "bring up the node that usually serves the target"
    MGS_ON_FAILOVER "mgs-on-failover" Suffers
        "does not serve as the MGS, and a failover node does"
        "bring up the first node of the MGS, or name the other one first"
    NO_FAILOVER "failover-unreachable" Suffers
        "has a failover node that does not answer"
        "bring up the failover node, or its way from here"
    RAIL_DOWN "interface-unreachable" Suffers
        "has a node with an interface that does not answer, beside others that do"
        "bring up that interface, or give this machine a way to its net"
    NID_TWICE "nid-of-two-nodes" Suffers
        "has a NID that the log gives to two nodes"
        "replace the NIDs of the targets (lctl replace_nids)"
    INDEX_GAP "index-gap" Suffers
        "has a gap in the indices of its targets"
        "start the missing target once, or remove it from the log if it is gone for good"
}
