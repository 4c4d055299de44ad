//! What our commands print otherwise than those of kernel nodes, each with its reason.

/// A deliberate difference.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    pub(crate) kernel: &'static str,
    pub(crate) finerail: &'static str,
    pub(crate) why: &'static str,
    /// The text differs, the exit code does not.
    pub(crate) text_only: bool,
    /// The exchanges that show it: file and command.
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
            "f-udsp: lnetctl udsp add --dst fd00:a::2@tcp --priority 0",
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
        kernel: "commands of the interactive mode, setup-mrrouting, setup-sysctl",
        finerail: "not there",
        why: "there is no interactive mode; Linux routes are the administrator's",
        text_only: false,
        commands: &[
            "e-errors-help: lnetctl --list-commands",
            "e-errors-help: lnetctl setup-mrrouting --help",
        ],
    },
    Difference {
        name: "discovery",
        kernel: "nodes discover each other, and know all NIDs of a peer and that it is Multi-Rail",
        finerail: "discover asks the peer and remembers its NIDs; discovery: 0 is shown",
        why: "nodes do not discover each other over the wire yet",
        text_only: false,
        commands: &[
            "b-discover: lnetctl lnet configure; lnetctl net add --net tcp --if eth0; lnetctl net add --net tcp1 --if eth1; lnetctl net show; lnetctl global show",
            "b-discover: lnetctl discover 10.1.0.2@tcp",
            "b-discover: lnetctl discover --force 10.1.0.2@tcp",
            "b-discover: lnetctl peer show -v 4",
            "b-discover: lnetctl peer show",
            "b-discover: lnetctl ping 10.2.0.2@tcp1",
            "b-discover: lnetctl ping 10.1.0.2@tcp; lnetctl peer show",
            "b-discover: lnetctl discover 10.1.0.99@tcp; lnetctl discover junk; lnetctl discover 10.1.0.1@tcp; lnetctl discover 0@lo",
            "e-show-export: lnetctl discover 10.1.0.2@tcp; lnetctl route add --net tcp5 --gateway 10.1.0.3@tcp --hop 1 --priority 2",
            "e-show-export: lnetctl export",
            "e-show-export: lnetctl export --backup",
            "f-udsp: lnetctl discover 10.1.0.2@tcp",
        ],
    },
    Difference {
        name: "resends",
        kernel: "stats show has no outcome of resends",
        finerail: "failed_resends and successful_resends behind network_timeout_count",
        why: "what retries achieve is worth two lines",
        text_only: false,
        commands: &["e-show-export: lnetctl stats show"],
    },
    Difference {
        name: "global-values",
        kernel: "router_sensitivity is kept as it was set; discovery is on",
        finerail: "router_sensitivity: 100, discovery: 0",
        why: "the first is deprecated and consulted by nothing; for the second see discovery",
        text_only: false,
        commands: &["e-show-export: lnetctl global show"],
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
        kernel: "an unknown NID is passed over; connections for each peer can be changed later",
        finerail: "an unknown NID is an error; conns_per_peer is given to net add or an import",
        why: "a command that does nothing has failed",
        text_only: false,
        commands: &[
            "e-show-export: lnetctl net set --nid 9.9.9.9@tcp --health 5",
            "e-show-export: lnetctl net set --net tcp --conns-per-peer 2",
        ],
    },
    Difference {
        name: "aborts",
        kernel: "aborts after the fact, with a double free",
        finerail: "the command does what it says",
        why: "a defect",
        text_only: false,
        commands: &[
            "e-errors-help: lnetctl net add --net tcp2 --if eth0 --peer-credits 16 --credits 512 --peer-timeout 100 --peer-buffer-credits 4 --cpt [0] --conns-per-peer 3",
            "f-udsp: lnetctl udsp show --idx 2",
        ],
    },
    Difference {
        name: "peers",
        kernel: "peers in another order, other ones left behind by pings; --non_mr shows as Multi-Rail: true",
        finerail: "in order of creation; --non_mr shows as false",
        why: "what was asked for is done; the order of peers means nothing",
        text_only: false,
        commands: &[
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
        kernel: "ping --timeout 3 is refused; a peer on the same network that does not exist is no route to host",
        finerail: "any timeout; the peer has not answered in time: an I/O error",
        why: "the answer is not waited for longer than was asked",
        text_only: false,
        commands: &[
            "a-ping: lnetctl ping 10.1.0.77@tcp; lnetctl ping --timeout 3 10.1.0.78@tcp; lnetctl ping 10.1.0.1@tcp; lnetctl ping 0@lo; lnetctl ping garbage; lnetctl ping 10.1.0.2@tcp9; lnetctl ping 10.1.0.2",
        ],
    },
    Difference {
        name: "udsp-refused",
        kernel: "rules without effect, reversed ranges, networks and priorities above their limits are stored; --idx -1 deletes everything; errors of a deletion stand under add",
        finerail: "refused; errors of a deletion stand under del",
        why: "see udsp-dead and expressions above",
        text_only: false,
        commands: &[
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
];

const HEAD: &str = "\
## Where commands differ

Made by `FINERAIL_OVERWRITE=1 cargo test -p finerail --test reference`, which gives the commands of
sessions of kernel nodes to nodes configured alike; do not edit.

| Name | Kernel nodes | Finerail | Why | Seen in |
|---|---|---|---|---|
";

/// The table as the last section of the docs.
pub(crate) fn section() -> String {
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
    HEAD.to_owned() + &rows.collect::<String>()
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
