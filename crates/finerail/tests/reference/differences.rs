//! Differences between the output of our commands and that of kernel nodes, each with its reason.

/// A deliberate difference.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    pub(crate) kernel: &'static str,
    pub(crate) finerail: &'static str,
    pub(crate) why: &'static str,
    /// Whether only the text differs, and the exit code does not.
    pub(crate) text_only: bool,
    /// The exchanges that show the difference: file and command.
    pub(crate) commands: &'static [&'static str],
}

pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "help",
        kernel: "terse help of each group, a version of Lustre",
        finerail: "help with the meaning of each option, our version; the same exit codes",
        why: "the text is for people",
        text_only: true,
        commands: &[
            "e-errors-help: lnetctl help",
            "e-errors-help: lnetctl lnet",
            "e-errors-help: lnetctl lnet help",
            "e-errors-help: lnetctl net",
            "e-errors-help: lnetctl net help",
            "e-errors-help: lnetctl route help",
            "e-errors-help: lnetctl peer help",
            "e-errors-help: lnetctl peer add",
            "e-errors-help: lnetctl set",
            "e-errors-help: lnetctl stats",
            "e-errors-help: lnetctl stats help",
            "e-errors-help: lnetctl global",
            "e-errors-help: lnetctl routing",
            "e-errors-help: lnetctl routing help",
            "e-errors-help: lnetctl udsp",
            "e-errors-help: lnetctl udsp help",
            "e-errors-help: lnetctl debug",
            "e-errors-help: lnetctl debug help",
            "e-errors-help: lnetctl export --help",
            "e-errors-help: lnetctl import --help",
            "e-errors-help: lnetctl ping",
            "e-errors-help: lnetctl ping --help",
            "e-errors-help: lnetctl discover --help",
            "e-errors-help: lnetctl fault help",
            "e-errors-help: lnetctl peer set --help",
            "e-errors-help: lnetctl net set --help",
            "e-errors-help: lnetctl --version",
        ],
    },
    Difference {
        name: "messages",
        kernel: "no message, or one that fits everything",
        finerail: "what is wrong; the same exit code and errno",
        why: "the cause is known, and is said",
        text_only: true,
        commands: &[
            "e-errors-help: lnetctl peer add --nid 10.1.0.[61-63]@tcp",
            "e-errors-help: lnetctl peer del --prim_nid 10.1.0.250@tcp",
            "e-errors-help: lnetctl net add --net tcp --if eth9",
            "e-errors-help: lnetctl net add --net o2ib --if eth0",
            "f-udsp: lnetctl udsp add --dst fd00:a::2@tcp --priority 0",
            "e-show-export: lnetctl set health_sensitivity 2000",
            "e-show-export: lnetctl set retry_count -1",
            "e-show-export: lnetctl set transaction_timeout 0",
            "e-show-export: lnetctl set transaction_timeout 2",
        ],
    },
    Difference {
        name: "usage",
        kernel: "wrong usage of some commands ends with 0, discover without NIDs with 255, net add --help with 1",
        finerail: "wrong usage ends with 234, being asked for help with 0",
        why: "a script must see that nothing was done",
        text_only: false,
        commands: &[
            "e-errors-help: lnetctl discover",
            "e-errors-help: lnetctl net add --help",
            "e-errors-help: lnetctl set help",
            "e-show-export: lnetctl fault show",
            "f-udsp: lnetctl udsp add",
            "f-udsp: lnetctl udsp add --priority 1",
            "f-udsp: lnetctl udsp add --src",
            "f-udsp: lnetctl udsp add --bogus 1",
            "f-udsp: lnetctl udsp del --idx",
            "f-udsp: lnetctl udsp show --idx -1",
            "f-udsp: lnetctl udsp show extra",
        ],
    },
    Difference {
        name: "commands",
        kernel: "commands in another order, --ignore_errors; setup-mrrouting asks for an interface and changes the machine",
        finerail: "ours in their order; setup-mrrouting prints what Linux needs",
        why: "Linux routes are the administrator's",
        text_only: false,
        commands: &[
            "e-errors-help: lnetctl --list-commands",
            "e-errors-help: lnetctl setup-mrrouting --help",
        ],
    },
    Difference {
        name: "resends",
        kernel: "stats show has no outcome of resends",
        finerail: "failed_resends and successful_resends behind network_timeout_count",
        why: "what retries achieve is worth two lines",
        text_only: false,
        commands: &[
            "g1-health: lnetctl net show -v 4; lnetctl peer show -v 4; lnetctl stats show",
            "d-routed: lnetctl peer show -v 2; lnetctl stats show; lnetctl net show -v 2",
            "d-routed: lnetctl stats show",
            "e-show-export: lnetctl stats show",
        ],
    },
    Difference {
        name: "debug-peer",
        kernel: "debug peer prints nothing",
        finerail: "it prints the peer with everything",
        why: "what is asked for is shown",
        text_only: false,
        commands: &["e-show-export: lnetctl debug peer --nid 10.1.0.2@tcp"],
    },
    Difference {
        name: "net-set",
        kernel: "an unknown NID is passed over; connections for each peer can be set, and are shown as before",
        finerail: "an unknown NID is an error; the number of connections that was set is shown",
        why: "a command that does nothing has failed, and one that does something is seen",
        text_only: false,
        commands: &[
            "e-show-export: lnetctl net show -v 3",
            "e-show-export: lnetctl net set --nid 9.9.9.9@tcp --health 5",
        ],
    },
    Difference {
        name: "aborts",
        kernel: "aborts after the fact, with a double free",
        finerail: "the command does what it says",
        why: "a defect",
        text_only: false,
        commands: &[
            "e-errors-help: lnetctl net add --net tcp2 --if eth0 --peer-credits 16 --credits 512 --peer-timeout 100 --peer-buffer-credits 4 --cpt [0 …",
            "f-udsp: lnetctl udsp show --idx 2",
        ],
    },
    Difference {
        name: "peers",
        kernel: "peers and networks in another order, other peers left behind by pings; --non_mr shows as Multi-Rail: true",
        finerail: "networks as they were added; --non_mr shows as false",
        why: "what was asked for is done; the order of peers means nothing, and that of networks differed because an import had failed",
        text_only: false,
        commands: &[
            "d-routed: lnetctl peer show -v 2",
            "e-errors-help: lctl list_nids; lctl which_nid 10.1.0.2@tcp 10.2.0.2@tcp1; lctl ping 10.1.0.2@tcp 3",
            "e-errors-help: lnetctl peer show",
            "a-ping: lnetctl peer show -v 4",
        ],
    },
    Difference {
        name: "unconfigured",
        kernel: "net show fails before lnet configure",
        finerail: "loopback is there",
        why: "a node is configured as long as its process runs",
        text_only: false,
        commands: &["e-errors-help: lnetctl net show"],
    },
    Difference {
        name: "descr-quoted",
        kernel: "text with a colon is not quoted",
        finerail: "it is quoted",
        why: "as in the table of documents",
        text_only: false,
        commands: &["e-errors-help: lnetctl import /nonexistent"],
    },
    Difference {
        name: "unanswered",
        kernel: "ping --timeout 3 is refused; a ping that was sent ends with -5 when the response tracker expires, up to 150 s later; a peer on the same network that does not exist is no route to host",
        finerail: "any timeout, 1 s unless given, behind which a ping that was sent ends with -5; a peer that nothing could be sent to in time has timed out",
        why: "the answer is not waited for longer than was asked",
        text_only: false,
        commands: &[
            "a-ping: lnetctl ping 10.1.0.77@tcp; lnetctl ping --timeout 3 10.1.0.78@tcp; lnetctl ping 10.1.0.1@tcp; lnetctl ping 0@lo; lnetct …",
        ],
    },
    Difference {
        name: "udsp-refused",
        kernel: "rules without effect, reversed ranges, networks and priorities above their limits are stored; --idx -1 deletes everything; errors of a deletion stand under add",
        finerail: "refused; errors of a deletion stand under del",
        why: "see udsp-dead and expressions above",
        text_only: false,
        commands: &[
            "f-udsp: lnetctl export --backup > u.yaml; sed -n \"/^udsp/,\\$p\" u.yaml; lnetctl export | sed -n \"/udsp:/,\\$p\"",
            "f-udsp: lnetctl udsp add --rte 10.1.0.3@tcp --priority 7",
            "f-udsp: lnetctl udsp add --rte 10.1.0.3@tcp",
            "f-udsp: lnetctl udsp add --src tcp --priority 99999999999",
            "f-udsp: lnetctl udsp add --src 10.1.0.[5-1]@tcp --priority 0",
            "f-udsp: lnetctl udsp add --src 10.1.0.1@tcp99999 --priority 0",
            "f-udsp: lnetctl udsp del --idx -1",
            "f-udsp: lnetctl udsp del --idx 99",
            "f-udsp: lnetctl udsp show",
            "f-udsp: lnetctl export --backup",
        ],
    },
    Difference {
        name: "lst",
        kernel: "lst runs in the kernel; its traffic with the node itself has made a peer of it",
        finerail: "a ping stands for its traffic; a node is no peer of its own; failed_resends and successful_resends are shown, see resends",
        why: "lst is no command of lnetctl",
        text_only: false,
        commands: &["c-lst: lnetctl stats show; lnetctl peer show -v 2"],
    },
    Difference {
        name: "lctl-ping",
        kernel: "a ping behind a router fails for some time after another one there was not answered",
        finerail: "it is answered",
        why: "the router had answered all the time",
        text_only: false,
        commands: &[
            "d-routed: lnetctl ping 10.1.0.99@tcp1; lnetctl ping 10.2.0.2@tcp2; lctl which_nid 10.2.0.2@tcp1; lctl ping 10.2.0.2@tcp1",
        ],
    },
    Difference {
        name: "import-errors",
        kernel: "an error block without a place; an unknown key in an entry is passed over, and the import ends with 0",
        finerail: "the line with the mistake, its place and what may stand there; 234",
        why: "a mistake must be found; see import-nested-keys above",
        text_only: false,
        commands: &[
            "e-errors-help: printf \"foo: bar\\n\" > f.yaml; lnetctl import f.yaml; echo rc=$?; printf \"net:\\n - net type: tcp9\\n bogus: 1\\n\" > g.yaml; …",
        ],
    },
    Difference {
        name: "import-backup",
        kernel: "import, --del and --show of a backup end after its first network, and --exec says nothing of the cause",
        finerail: "the backup is removed, shown and imported as a whole",
        why: "a defect; see import-backup above",
        text_only: false,
        commands: &[
            "e-errors-help: lnetctl export > x.yaml; lnetctl export --backup > b.yaml; lnetctl import --del b.yaml; echo rc=$?; lnetctl net show; ln …",
        ],
    },
    Difference {
        name: "preferred-nids",
        kernel: "preferred source NIDs of a peer are not shown (Q-25)",
        finerail: "they are, with a rule that has both src and dst",
        why: "a rule's effect must be seen",
        text_only: false,
        commands: &[
            "f-udsp: lnetctl udsp show; lnetctl net show -v 4 | grep -E \"nid:|priority|pref|NIDs\"; lnetctl peer show -v 4 | grep -E \"nid:|pri …",
            "f-udsp: lnetctl udsp del --all; lnetctl udsp add --src 10.2.0.1@tcp1 --dst 10.2.0.2@tcp1; for i in 1 2 3 4 5 6 7 8 9 10; do lnet …",
        ],
    },
    Difference {
        name: "udsp-import",
        kernel: "no import of rules succeeds",
        finerail: "rules are imported; errors in them are reported with their place; rules that exist already are named",
        why: "a defect; see udsp-import above",
        text_only: false,
        commands: &[
            "f-udsp: cat > i1.yaml <<E udsp: - idx: 0 src: 10.1.0.1@tcp dst: 10.1.0.2@tcp - idx: 1 src: tcp1 action: - priority: 1 - idx: 2 d …",
            "f-udsp: lnetctl udsp del --all; lnetctl import u.yaml; echo rc=$?; lnetctl udsp show; lnetctl net show",
            "f-udsp: lnetctl udsp del --all; sed -n \"/^udsp/,/^[a-tv-z]/p\" u.yaml > u2.yaml; cat u2.yaml; lnetctl import u2.yaml; echo rc=$?; …",
            "f-udsp: printf \"udsp:\\n - idx: 0\\n src: junk\\n action:\\n - priority: 1\\n\" > i3.yaml; lnetctl import i3.yaml; echo rc=$?; printf …",
        ],
    },
];

const HEAD: &str = "\
## Where commands differ

Made by `FINERAIL_OVERWRITE=1 cargo test -p finerail --test reference`, which gives the commands of
sessions of kernel nodes to nodes configured alike; do not edit.

| Session | What is compared | What is not, and why |
|---|---|---|
";

/// The sessions: the commands of each that the test executes, and those that it omits.
const SESSIONS: [[&str; 3]; 11] = [
    [
        "a-ping",
        "every command of lnetctl",
        "lists of connections: lctl's, or of ss",
    ],
    [
        "b-discover",
        "every command of lnetctl",
        "lists of connections; what ip says of Linux routes",
    ],
    [
        "c-lst",
        "counters and peers behind the traffic, for which a ping stands",
        "lst, which prints no documents: the tests of finerail lst compare it",
    ],
    [
        "d-routed",
        "every command of lnetctl, on two nodes behind a router",
        "lctl get_param, which shows files of the kernel; lst",
    ],
    ["e-show-export", "every command", "nothing"],
    [
        "e-errors-help",
        "every command but one",
        "malformed YAML, on which the kernel's tool hangs; dmesg and parameters of the kernel",
    ],
    ["f-udsp", "every command", "dmesg"],
    [
        "g1-health",
        "status, fatal errors and health of every interface while a link goes and comes, and all of `show` behind",
        "when each was seen; dmesg",
    ],
    [
        "h-host-vs-kernel",
        "pings of a peer that answers, swallows, is silent, resets, has the wrong type or version, is away",
        "broken connection attempts to a kernel node: they have no output of lnetctl, and what is answered to them is a matter of the socket LND's tests; a discovery, see discovery",
    ],
    [
        "k-race",
        "both answers of pings at once, five times",
        "lists of connections; dmesg",
    ],
    [
        "k-router-down",
        "state and type of the route, answers of pings, and the router's interfaces while its far interface, then its node goes and comes",
        "when each was seen: every sample must be one that a kernel node shows, and the last one is the same",
    ],
];

const TABLE: &str = "
| Name | Kernel nodes | Finerail | Why | Seen in |
|---|---|---|---|---|
";

/// Returns the table as the last section of the docs.
pub(crate) fn section() -> String {
    let sessions = SESSIONS.map(|cells| format!("| {} |\n", cells.map(cell).join(" | ")));
    let rows = DIFFERENCES.iter().map(|row| {
        let seen: Vec<String> = row
            .commands
            .iter()
            .map(|command| format!("`{command}`"))
            .collect();
        let seen = seen.join("<br>");
        let cells = [row.name, row.kernel, row.finerail, row.why, &seen];
        format!("| {} |\n", cells.map(cell).join(" | "))
    });
    HEAD.to_owned() + &sessions.concat() + TABLE + &rows.collect::<String>()
}

/// Escapes bars, because a bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
