//! Sweeps that are divided into shards: manually, and as a job array of a real Slurm.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use common::process::{Ended, Process, run};
use common::{can_run, eventually, finerail, is_root, scaled};

/// Runs all shards of a command, and writes the result of each to a file. Returns the paths of
/// these files.
fn shares(directory: &Path, words: &[&str], count: usize) -> Vec<String> {
    let share = |index| {
        let share = format!("{index}/{count}");
        let ended = run(finerail([words, &["--shard", &share]].concat())).expect_code(0);
        let path = directory.join(format!("{index}.json"));
        fs::write(&path, ended.out).unwrap();
        path.to_str().unwrap().to_owned()
    };
    (0..count).map(share).collect()
}

fn merge(words: &[&str], files: &[String]) -> Ended {
    let files = files.iter().map(String::as_str);
    run(finerail(
        ["merge"]
            .into_iter()
            .chain(words.iter().copied())
            .chain(files),
    ))
}

#[test]
fn the_shares_of_a_simulation_give_its_result_in_any_order_and_missing_ones_are_named() {
    let directory = TempDir::new().unwrap();
    let words = ["sim", "all-faults", "--runs", "20"];
    let files = shares(directory.path(), &words, 3);
    let whole = run(finerail(words)).expect_code(0);
    let joined = merge(&[], &[files[2].clone(), files[0].clone(), files[1].clone()]);
    assert_eq!(joined.expect_code(0).out, whole.out);
    let half = directory.path().join("half.json");
    let output = ["-o", half.to_str().unwrap()];
    let ended = merge(&output, &[files[2].clone()]).expect_code(1);
    assert!(
        ended.out.is_empty() && ended.err.contains("missing shares: 0,1"),
        "{}",
        ended.err
    );
    let rest = [
        half.to_str().unwrap().to_owned(),
        files[1].clone(),
        files[0].clone(),
    ];
    assert_eq!(merge(&[], &rest).expect_code(0).out, whole.out);
    let other = shares(directory.path(), &["sim", "all-faults", "--runs", "4"], 1);
    merge(&[], &[half.to_str().unwrap().to_owned(), other[0].clone()])
        .expect_code(2)
        .expect_error("of another sweep");
}

#[test]
fn the_shares_of_a_comparison_give_its_table() {
    let directory = TempDir::new().unwrap();
    let words = ["fgr", "compare", "--machine", "synthetic:6x8x4:2x3x1"];
    let files = shares(directory.path(), &words, 4);
    let whole = run(finerail(words)).expect_code(0);
    assert_eq!(merge(&[], &files).expect_code(0).out, whole.out);
}

#[test]
fn the_shares_of_a_placement_are_a_function_of_seed_and_share_and_join_in_any_order() {
    let directory = TempDir::new().unwrap();
    let mut blades = "blade,cabinet,kind,node,at\r\n".to_owned();
    for number in 0..6 * 8 * 4 {
        let (x, y, z) = (number / 32, number / 4 % 8, number % 4);
        let node = 10_000 + number;
        blades += &format!("\"{x}-{y}-{z}\",{x}-{y},service,{node},{x} {y} {z}\r\n");
    }
    let sites = directory.path().join("blades.csv");
    fs::write(&sites, blades).unwrap();
    let words = [
        "fgr",
        "place",
        "--machine",
        "synthetic:6x8x4:2x2x1",
        "--sites",
        sites.to_str().unwrap(),
        "--candidates",
        "60",
    ];
    let files = shares(directory.path(), &words, 3);
    let again = TempDir::new().unwrap();
    for (file, other) in files.iter().zip(shares(again.path(), &words, 3)) {
        assert_eq!(fs::read(file).unwrap(), fs::read(other).unwrap(), "{file}");
    }
    let different: BTreeSet<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert_eq!(different.len(), 3, "each share searches by itself");
    let all = merge(&[], &files).expect_code(0).out;
    assert!(all.contains("\n1,"), "{all}");

    let pair = directory
        .path()
        .join("pair.json")
        .to_str()
        .unwrap()
        .to_owned();
    merge(&["-o", &pair], &[files[2].clone(), files[1].clone()])
        .expect_code(1)
        .expect_error("missing shares: 0");
    assert_eq!(
        merge(&[], &[pair, files[0].clone()]).expect_code(0).out,
        all
    );
}

#[test]
fn a_share_is_taken_from_slurm_and_from_kubernetes() {
    let words = ["sim", "all-faults", "--runs", "8"];
    let by_hand = run(finerail([&words[..], &["--shard", "1/4"]].concat())).expect_code(0);
    let of = |share: &str, variables: &[(&str, &str)]| {
        let mut command = finerail([&words[..], &["--shard", share]].concat());
        command.envs(variables.iter().copied());
        run(command).expect_code(0).out
    };
    let slurm = [
        ("SLURM_ARRAY_TASK_ID", "8"),
        ("SLURM_ARRAY_TASK_MIN", "7"),
        ("SLURM_ARRAY_TASK_COUNT", "4"),
    ];
    assert_eq!(of("auto", &slurm), by_hand.out);
    assert_eq!(of("auto/4", &[("JOB_COMPLETION_INDEX", "1")]), by_hand.out);
}

const KEY_BYTES: usize = 128;

/// A Slurm of one machine. Its daemons and files are below one directory.
struct Slurm {
    directory: TempDir,
    /// Daemons, in the order in which they must end.
    daemons: Vec<Process>,
}

impl Slurm {
    fn start() -> Self {
        let mut slurm = Self {
            directory: TempDir::new().unwrap(),
            daemons: Vec::new(),
        };
        let path = |name: &str| {
            slurm
                .directory
                .path()
                .join(name)
                .to_str()
                .unwrap()
                .to_owned()
        };
        fs::write(path("key"), [7; KEY_BYTES]).unwrap();
        for name in ["state", "spool"] {
            fs::create_dir(path(name)).unwrap();
        }
        let mut permissions = fs::metadata(path("key")).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        fs::set_permissions(path("key"), permissions).unwrap();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap().to_owned();
        fs::write(
            path("slurm.conf"),
            configuration(&host, slurm.directory.path()),
        )
        .unwrap();
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force", "--num-threads=2"]);
        for (option, name) in [
            ("key-file", "key"),
            ("socket", "munge"),
            ("pid-file", "munged.pid"),
            ("seed-file", "seed"),
            ("log-file", "munged.log"),
        ] {
            munged.arg(format!("--{option}={}", path(name)));
        }
        let socket = PathBuf::from(path("munge"));
        let daemons = [
            munged,
            daemon("slurmctld", &path("slurm.conf"), &[]),
            daemon("slurmd", &path("slurm.conf"), &["-N", &host]),
        ];
        for command in daemons {
            slurm.daemons.insert(0, Process::start(command));
            eventually("munged listens", || socket.exists().then_some(()));
        }
        eventually("a node is idle", || {
            let answer = slurm
                .client("sinfo", &["--noheader", "-o", "%t"])
                .output()
                .ok()?;
            (answer.stdout == b"idle\n").then_some(())
        });
        slurm
    }

    fn client(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.directory.path().join("slurm.conf"));
        command.args(words).current_dir(self.directory.path());
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.drain(..) {
            let _ended = daemon.stop();
        }
    }
}

fn daemon(program: &str, configuration: &str, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["-D", "-f", configuration]).args(words);
    command
}

fn configuration(host: &str, directory: &Path) -> String {
    let (d, control, node) = (directory.display(), testkit::port(), testkit::port());
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={d}/munge\nCredType=cred/munge\nStateSaveLocation={d}/state\n\
         SlurmdSpoolDir={d}/spool\nSlurmctldPidFile={d}/control.pid\nSlurmdPidFile={d}/node.pid\n\
         SlurmctldPort={control}\nSlurmdPort={node}\nProctrackType=proctrack/linuxproc\n\
         TaskPlugin=task/none\nSelectType=select/cons_tres\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nMpiDefault=none\nReturnToService=2\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
         PartitionName=all Nodes=ALL Default=YES State=UP\n"
    )
}

#[test]
fn the_job_array_of_contrib_shares_a_sweep_on_a_real_slurm() {
    if scaled(0, 1) == 0 {
        return;
    }
    let programs = [
        ("munged", "--version"),
        ("slurmctld", "-V"),
        ("slurmd", "-V"),
    ];
    if let Some((program, _)) = programs
        .iter()
        .find(|(program, flag)| !can_run(program, &[flag]))
    {
        println!("skipped: no {program} (packages slurm-wlm and munge)");
        return;
    }
    // Without a configuration, `sbatch` does not even print its version.
    if !can_run("sh", &["-c", "command -v sbatch"]) {
        println!("skipped: no sbatch (package slurm-client)");
        return;
    }
    if !is_root() {
        println!("skipped: slurmctld, slurmd and munged of the test run as root");
        return;
    }
    let slurm = Slurm::start();
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../contrib/sweep/sweep.sbatch"
    );
    let sweep = ["sim", "all-faults", "--runs", "30"];
    let array = ["--wait", "--array=1-4", script, "out"];
    let mut sbatch = slurm.client("sbatch", &[&array[..], &sweep].concat());
    sbatch.env("FINERAIL", env!("CARGO_BIN_EXE_finerail"));
    run(sbatch).expect_code(0);
    let file = |index| slurm.directory.path().join(format!("out/{index}.json"));
    let files: Vec<String> = (1..=4)
        .map(|index| file(index).to_str().unwrap().to_owned())
        .collect();
    let whole = run(finerail(sweep)).expect_code(0);
    assert_eq!(merge(&[], &files).expect_code(0).out, whole.out);
}
