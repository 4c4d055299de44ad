//! Deliberate differences between documents of Finerail and of kernel nodes.

/// A deliberate difference between the output or input of kernel nodes of 2.16.1 and of Finerail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// A short stable name.
    pub code: &'static str,
    /// The command or section.
    pub subject: &'static str,
    /// The behaviour of kernel nodes.
    pub kernel: &'static str,
    /// The behaviour of Finerail.
    pub finerail: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// All deliberate differences in documents: the documentation prints this table.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        code: "descr-quoted",
        subject: "import of a file that cannot be opened",
        kernel: "descr: cannot open 'F': No such file or directory",
        finerail: "descr: \"cannot open 'F': No such file or directory\"",
        reason: "a colon and a blank inside text without quotes is not YAML, and no parser reads it",
    },
    Difference {
        code: "udsp-lists",
        subject: "udsp show",
        kernel: "[1,3-5] prints as 1.3-5], [1,3] as 1.3 (Q-11)",
        finerail: "[1,3-5] and [1,3]",
        reason: "the kernel's text is no expression and cannot be imported",
    },
    Difference {
        code: "udsp-any-number",
        subject: "udsp show",
        kernel: "tcp* prints as tcp[0-4294967295]",
        finerail: "tcp*; the kernel's form is accepted, too",
        reason: "network numbers end at 65535",
    },
    Difference {
        code: "udsp-rank",
        subject: "udsp show, import",
        kernel: "a rule with src, dst and priority is stored without effect (Q-16)",
        finerail: "the priority is the rank of the preferred NIDs, and printed as an action",
        reason: "the design gives pairs a priority",
    },
    Difference {
        code: "udsp-dead",
        subject: "import",
        kernel: "rules with rte alone, or rte and priority, are stored without effect (Q-16, Q-17)",
        finerail: "rejected with their place; outputs that have them are read",
        reason: "a rule that does nothing is a mistake",
    },
    Difference {
        code: "udsp-disabled",
        subject: "udsp show, import",
        kernel: "every stored rule takes effect",
        finerail: "a disabled rule prints disabled: 1 after its other keys",
        reason: "rule blocks of version 2 have disabled rules; no kernel prints the key",
    },
    Difference {
        code: "udsp-import",
        subject: "import",
        kernel: "an exported udsp section is rejected, or read wrongly (Q-21 to Q-24)",
        finerail: "export and import give the same rules in the same order",
        reason: "exports are made to be imported",
    },
    Difference {
        code: "import-nested-keys",
        subject: "import",
        kernel: "unknown keys inside an entry are passed over without a message",
        finerail: "rejected with their place",
        reason: "a configuration of which a part is ignored silently is worse than none",
    },
    Difference {
        code: "import-truncated",
        subject: "import",
        kernel: "an import of truncated YAML does not end",
        finerail: "rejected with its place",
        reason: "a defect",
    },
    Difference {
        code: "import-backup",
        subject: "import",
        kernel: "a backup of two networks ends with -7 after the first",
        finerail: "the whole backup is imported",
        reason: "a defect",
    },
    Difference {
        code: "import-there",
        subject: "import",
        kernel: "an object that exists already ends the import with -17",
        finerail: "missing objects are added, and existing ones are named on standard error; with other settings, or with --strict, -17",
        reason: "a route added to the file must reach the node",
    },
    Difference {
        code: "one-namespace",
        subject: "net add",
        kernel: "each interface belongs to the network namespace in which it was added; one LNet spans them",
        finerail: "a node lives in the network namespace of its process; another namespace takes another node",
        reason: "a process sees one network namespace, and its sockets cost no privilege there",
    },
    Difference {
        code: "expressions",
        subject: "NIDs and networks everywhere",
        kernel: "[5-1], tcp99999 and tcp1[2-3] are accepted and match something else or nothing",
        finerail: "rejected with their place",
        reason: "an expression that matches something else than its text is a mistake",
    },
    Difference {
        code: "backup-nid",
        subject: "export --backup",
        kernel: "no interface has a nid",
        finerail: "one that was configured by NID alone keeps it",
        reason: "without its nid the entry would name no interface",
    },
    Difference {
        code: "routes-priority",
        subject: "routes= of modprobe.d",
        kernel: "the last priority of an entry is that of all its gateways (Q-26)",
        finerail: "each gateway has its own",
        reason: "the entry gives each gateway its own priority",
    },
    Difference {
        code: "networks-interface",
        subject: "networks= of modprobe.d",
        kernel: "a network without interface takes the first that is found",
        finerail: "convert rejects it, or takes the interface of --interface",
        reason: "the first interface may change with each boot",
    },
    Difference {
        code: "routes-expanded",
        subject: "convert",
        kernel: "ranges of routes are kept, one entry each",
        finerail: "one entry for each network and gateway; unusable ones are named and left out",
        reason: "imports take one network an entry, and reject what a module would skip",
    },
    Difference {
        code: "tunables-text",
        subject: "net add",
        kernel: "text where a number belongs, as in --credits abc, is passed over",
        finerail: "the text is rejected",
        reason: "a setting that is ignored must not go unnoticed",
    },
    Difference {
        code: "policies-ipv6",
        subject: "the nine functions for policies, udsp add",
        kernel: "IPv6 NIDs are in no rule (Q-10)",
        finerail: "rejected, too (-95, -22); an import accepts them, and they take effect",
        reason: "the design's records have four octets for an address",
    },
    Difference {
        code: "latencies",
        subject: "net show -v, peer show -v",
        kernel: "no latencies up to 2.17; the next release has them",
        finerail: "times of PUT, GET and ACK behind the counts, as the next release prints them; none in the profile \
                   lustre",
        reason: "latencies show which peer is slow",
    },
];
