//! Messages of programs and of the kernel in a text: which are told, which are not, and how many nodes a finding names.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use lnet_site::lint::{Finding, Input, lint};

fn found(text: &str) -> Vec<Finding> {
    let input = Input {
        name: "console.txt",
        text,
        interfaces: None,
        port: None,
    };
    lint(&[input]).unwrap().findings
}

/// Returns what the only finding says.
#[track_caller]
fn told(text: &str) -> String {
    let found = found(text);
    assert_eq!(found.len(), 1, "{text}: {found:#?}");
    assert_eq!(found[0].code, "kernel-message", "{text}");
    format!("{} | {}", found[0].reason, found[0].fix)
}

/// Messages of programs, with parts of what the lint says of each.
const OF_PROGRAMS: [(&str, [&str; 2]); 41] = [
    (
        "modprobe: ERROR: could not insert 'lnet': Required key not available",
        ["Secure Boot", "-126 ENOKEY"],
    ),
    (
        "Nov 22 07:26:53 c1 kernel: lnet: version magic '5.14.0-1 SMP' should be '5.14.0-2 SMP'",
        [
            "once, on c1: the module was built for another kernel",
            "modinfo -F vermagic",
        ],
    ),
    (
        "modprobe: ERROR: could not insert 'lustre': Exec format error",
        ["-8 ENOEXEC", "uname -r"],
    ),
    (
        "insmod: ERROR: could not insert module /lib/modules/5.14/extra/lnet.ko.xz: Key was rejected by service",
        ["-129 EKEYREJECTED", "mokutil"],
    ),
    (
        "modprobe: ERROR: could not insert 'ko2iblnd': Unknown symbol in module, or unknown parameter (see dmesg)",
        ["on this machine: the modules do not fit", "finerail lint"],
    ),
    (
        "[  12.1] lnet: unknown parameter 'acept' ignored",
        ["not known to this release", "modinfo -p"],
    ),
    (
        "[  12.1] ksocklnd: `abc' invalid for parameter `credits'",
        ["not valid", "modinfo -p"],
    ),
    (
        "modprobe: FATAL: Module lustre not found in directory /lib/modules/5.14.0-503.el9.x86_64",
        ["no module of this name", "depmod -a"],
    ),
    (
        "modprobe: ERROR: could not insert 'ptlrpc': Network is down",
        ["-100 ENETDOWN", "no usable interface"],
    ),
    (
        "rmmod: ERROR: Module lnet is in use by: ksocklnd",
        ["in use and stays loaded", "lustre_rmmod"],
    ),
    (
        "mount.lustre: mount 10.1.0.9@tcp:/fs at /mnt/fs failed: Operation already in progress",
        [
            "of 10.1.0.9@tcp: the target or the file system is mounted already",
            "-114 EALREADY",
        ],
    ),
    (
        "mount.lustre: mount mgs1@tcp:/fs at /mnt/fs failed: Cannot send after transport endpoint shutdown",
        ["of mgs1@tcp", "-108 ESHUTDOWN"],
    ),
    (
        "mount.lustre: mount 10.1.0.9@tcp:/fs at /mnt/fs failed: Invalid argument",
        ["-22 EINVAL", "lctl --version"],
    ),
    (
        "mount: /mnt: unknown filesystem type 'lustre'.",
        ["not installed", "modprobe lustre"],
    ),
    (
        "mount.lustre: mount 10.1.0.9@tcp:/fs at /mnt/fs failed: Unknown error 524",
        ["of 10.1.0.9@tcp: the mount failed", "dmesg | tail"],
    ),
    (
        "add:\n    - net:\n          errno: -22\n          descr: \"cannot add network: Invalid argument\"",
        ["'cannot add network', once, on this machine", "-22 EINVAL"],
    ),
    (
        "add:\n    - route:\n          errno: -113\n          descr: \"cannot add route: No route to host\"",
        ["no local network", "-113 EHOSTUNREACH"],
    ),
    (
        "show:\n    - net:\n          errno: -100\n          descr: \"cannot get networks: Network is down\"",
        ["LNet is not started", "lnetctl lnet configure"],
    ),
    (
        "ping:\n    - errno: -1\n      descr: failed to ping 10.1.0.9@tcp: Input/output error",
        ["of 10.1.0.9@tcp: the node does not answer", "-5 EIO"],
    ),
    (
        "set:\n    - nonesuch:\n          errno: -95\n          descr: \"cannot set nonesuch\"",
        ["once, on this machine", "-95 EOPNOTSUPP"],
    ),
    (
        "IOC_LIBCFS_GET_NI error 100: Network is down",
        ["LNet is not started", "-100 ENETDOWN"],
    ),
    (
        "LNET configure error 22: Invalid argument",
        ["did not start", "-22 EINVAL"],
    ),
    (
        "opening /dev/lnet failed: No such file or directory",
        ["lnet is not loaded", "-2 ENOENT"],
    ),
    (
        " - nothing provides ksym(ib_alloc_mr) = 0xcfed7203 needed by kmod-lustre-client-2.15.8-1.el9.x86_64",
        ["another kernel", "uname -r"],
    ),
    (
        "Error: Unable to find a match: lustre-client",
        ["no such package", "dnf repolist"],
    ),
    (
        " lustre-client-modules-aws : Depends: linux-image-5.15.0-1001-aws but it is not installable",
        ["another kernel", "uname -r"],
    ),
    (
        "Consult /var/lib/dkms/lustre-client-modules/2.15.8/build/make.log for more information.",
        ["not built for this kernel", "dkms autoinstall"],
    ),
    (
        "Error: Unable to find a match: kmod-lustre-client",
        ["no such package", "dnf search lustre"],
    ),
    (
        "E: Unable to locate package lnet-utils",
        ["no such package", "uname -r"],
    ),
    (
        "Error! Bad return status for module build on kernel: 5.4.0 (x86_64)\nConsult /var/lib/dkms/lustre/2.15.8/build/make.log for more information.",
        ["not built for this kernel", "dkms autoinstall"],
    ),
    (
        "mount.lustre: mount /dev/mapper/ost1 at /mnt/ost1 failed: No such device or address",
        ["once, on this machine: the device is not there", "-6 ENXIO"],
    ),
    (
        "mount.lustre: mount 10.1.0.9@tcp:/fs at /mnt/fs failed: No such device",
        ["modules are not loaded", "-19 ENODEV"],
    ),
    (
        "mount.lustre: mount 10.1.0.9@tcp:/fs at /mnt/fs failed: Network is unreachable",
        [
            "of 10.1.0.9@tcp: no path leads to the server's network",
            "ip route get",
        ],
    ),
    (
        "mount.lustre: mount 10.1.0.9@tcp:/fs at /mnt/fs failed: Network is down",
        ["LNet is not started", "lnetctl lnet configure"],
    ),
    (
        "add:\n    - route:\n          errno: -17\n          descr: \"cannot add route: File exists\"",
        ["this node has it already", "lnetctl route show"],
    ),
    (
        "add:\n    - net:\n          errno: -17\n          descr: \"cannot add network: File exists\"",
        ["this node has it already", "-17 EEXIST"],
    ),
    (
        "add:\n    - peer_ni:\n          errno: -17\n          descr: \"cannot add peer NI\"",
        ["this node has it already", "lnetctl peer show"],
    ),
    (
        "mount.lustre: mount fd00::ab@tcp:/fs at /mnt failed: Connection timed out",
        ["of fd00::ab@tcp", "lnetctl ping fd00::ab@tcp;"],
    ),
    (
        "mount.lustre: mount mgs_1@tcp:/fs at /mnt failed: Connection timed out",
        ["of mgs_1@tcp", "lnetctl ping mgs_1@tcp;"],
    ),
    (
        "mount: mounting 10.1.0.9@tcp:/fs on /mnt failed: No such device",
        ["of 10.1.0.9@tcp: the client's modules", "-19 ENODEV"],
    ),
    (
        "mount: mounting mgs1@o2ib1,mgs2@o2ib1:/fs on /mnt failed: Input/output error",
        ["of mgs1@o2ib1: no answer of the MGS", "-5 EIO"],
    ),
];

#[test]
fn messages_of_programs_are_told_with_their_error_and_next_command() {
    for (text, parts) in OF_PROGRAMS {
        let told = told(&format!("{text}\n"));
        for part in parts {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

/// What other programs and other modules print, and what healthy machines print.
const OF_OTHERS: [&str; 35] = [
    "modprobe: ERROR: could not insert 'nvidia': Required key not available",
    "modprobe: ERROR: could not insert 'vboxdrv': Exec format error",
    "Nov 22 07:26:53 mgs kernel: nvidia: Unknown symbol drm_open (err -2)",
    "Nov 22 07:26:53 lnet kernel: nfs: unknown parameter 'x' ignored",
    "depmod: WARNING: /lib/modules/5.4.0-lustre/extra/zfs.ko needs unknown symbol zap_add",
    "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.4.0-lustre",
    "mount: /mnt: unknown filesystem type 'xfs'.",
    "mount.nfs: mount system call failed: Connection timed out",
    "Error! Bad return status for module build on kernel: 5.4.0 (x86_64)\nConsult /var/lib/dkms/nvidia/535/build/make.log for more information.",
    " - nothing provides libfoo needed by bar-1.0-1.el9.x86_64",
    "E: Unable to locate package nosuch",
    "libcfs: loading out-of-tree module taints kernel.",
    "libcfs: module verification failed: signature and/or required key missing - tainting kernel",
    "insmod /lib/modules/5.14.0/extra/lnet.ko networks=tcp(eth0)",
    "  Installing : lustre-client-dkms-2.15.8-1.el9.noarch      7/12\nDKMS: install completed.",
    "Nov 22 07:26:53 c1 kernel: LNet: Added LNI 10.0.0.1@tcp [8/256/0/180]",
    "E: Unable to locate package telnet",
    "Error: Unable to find a match: telnet",
    " - nothing provides libx needed by telnet-server-0.17-1.el9.x86_64",
    "No match for argument: nullustre",
    "Nov 22 07:26:53 lustre1 dnf: Error: Unable to find a match: nosuch",
    "Creating symlink /var/lib/dkms/lustre-client/2.15.3/source -> /usr/src/lustre-client-2.15.3",
    "make[1]: Entering directory '/var/lib/dkms/lustre-client-modules/2.15.8/build'",
    "Cleaning build area (bad exit status: 0)... rm -rf /var/lib/dkms/lustre-client/2.15.3/build",
    "DKMS make.log for lustre-client-2.15.3: /var/lib/dkms/lustre-client/2.15.3/build/make.log",
    "mount: mounting tank/fs@snap on /mnt failed: No such device",
    "mount: mounting //user@host/share on /mnt failed: Input/output error",
    "mount: mounting user@storage:/fs on /mnt failed: Connection timed out",
    "mount: mounting tank/fs@tcp on /mnt failed: No such device",
    "mount: mounting /dev/sdb1 on /mnt/10.0.0.1@tcp:/fs failed: No such device",
    "crw------- 1 root root 10, 60 Nov 22 07:26 /dev/lnet",
    "# /dev/lnet must exist",
    "# opening /dev/lnet failed: No such file or directory",
    "  # LNetError: 1:0:(x.c:1:check()) failed, rc = -22",
    "ioctl(3, IOC_LIBCFS_GET_NI, 0x7ffe) = 0",
];

#[test]
fn comments_leave_a_configuration_readable() {
    for comment in [
        "/dev/lnet must exist",
        "opening /dev/lnet failed: No such file or directory",
        "LNetError: 1:0:(x.c:1:check()) failed, rc = -22",
        "modprobe: ERROR: could not insert 'lnet': Exec format error",
    ] {
        for text in [
            format!("# {comment}\nnet:\n- net type: nonesuch\n"),
            format!("# {comment}\noptions lnet networks=nonesuch(eth0)\n"),
        ] {
            let found = found(&text);
            let is_read = found.iter().all(|one| one.code != "kernel-message");
            assert!(is_read && !found.is_empty(), "{text}: {found:#?}");
        }
    }
}

#[test]
fn many_answers_before_a_configuration_are_part_of_the_document() {
    let block = "- errno: -22\n  descr: \"cannot add network: Invalid argument\"\n";
    let text = format!("add:\n{}net:\n- net type: tcp\n", block.repeat(200_000));
    let found = found(&text);
    assert!(
        found.iter().all(|one| one.code != "kernel-message"),
        "{} findings",
        found.len()
    );
}

#[test]
fn numbers_that_no_error_has_make_no_findings_of_their_own() {
    let line = |number: u32| format!("LNetError: 7:0:(x.c:1:check()) failed, rc = -{number}\n");
    let log: String = (1..=10_000).map(line).collect();
    let found = found(&log);
    assert!(found.len() < 150, "{} findings", found.len());
    let has = |text: &str| found.iter().any(|one| one.reason.contains(text));
    assert!(has("'rc = -110', once"), "{found:#?}");
    assert!(has("more errors of other kinds"), "{found:#?}");
    assert!(!has("rc = -4096"), "{found:#?}");
}

#[test]
fn other_programs_other_modules_and_healthy_machines_are_not_told() {
    for text in OF_OTHERS {
        let found = found(&format!("[1.5] LNet: Accept secure, port 988\n{text}\n"));
        assert!(found.is_empty(), "{text}: {found:#?}");
    }
}

#[test]
fn an_answer_beside_a_configuration_leaves_the_configuration_readable() {
    let text = "add:\n    - net:\n          errno: -22\n          descr: \"cannot add network: Invalid argument\"\n\
                net:\n- net type: tcp\n  local NI(s):\n  - nid: 10.0.0.1@tcp\n";
    let found = found(text);
    assert!(
        found.iter().all(|one| one.code != "kernel-message"),
        "{found:#?}"
    );
}

#[test]
fn a_kind_names_twenty_nodes_and_counts_the_others() {
    let line = |node: usize| {
        format!("LNetError: 7:0:(x.c:1:check()) Timed out tx for 10.0.0.{node}@o2ib: 40 seconds\n")
    };
    let log: String = (1..=25).map(line).collect();
    let text = told(&format!("{log}{}", line(25)));
    assert!(
        text.starts_with("'Timed out tx', 26 times, of 10.0.0.25@o2ib (2), 10.0.0.1@o2ib (1), 10.0.0.2@o2ib (1), "),
        "{text}"
    );
    assert!(
        text.contains(", 10.0.0.19@o2ib (1) and 5 more: messages to it"),
        "{text}"
    );
    assert!(!text.contains("10.0.0.20@o2ib"), "{text}");
    assert!(text.ends_with("| lnetctl ping 10.0.0.25@o2ib"), "{text}");
}

#[test]
fn a_message_with_a_list_names_each_node_of_it() {
    let text = told("LNet: 2 peer NIs in recovery (showing 2): 10.1.0.1@tcp, 10.1.0.2@tcp\n");
    assert!(
        text.starts_with(
            "'NIs in recovery', once, of 10.1.0.1@tcp (1), 10.1.0.2@tcp (1): an interface"
        ),
        "{text}"
    );
}
