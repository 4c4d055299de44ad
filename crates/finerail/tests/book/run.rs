//! Runs the commands of a page in a directory and a network namespace of their own.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use snapbox::Assert;
use snapbox::report::Palette;
use tempfile::TempDir;
use testkit::QueueTurn;

use super::page::{Run, Step};
use crate::common::can_run;
use crate::common::process::Process;

/// Makes the namespaces. The end of `unshare` ends every process of a page.
const UNSHARE: &[&str] = &[
    "--user",
    "--map-root-user",
    "--net",
    "--ipc",
    "--mount-proc",
    "--pid",
    "--fork",
    "--kill-child",
];

/// The private parts of a page's system: the loopback interface, shared memory, and the runtime directory of the user.
const SETUP: &str = "\
ip link set lo up
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -m 700 -p /run/user/0
set -o pipefail
";

/// How long the commands of a page may take: a limit that only a hang reaches.
const PAGE_LIMIT: Duration = Duration::from_secs(300);

/// Where outputs and exit codes are, in the directory of the page.
const RESULTS: &str = ".results";

/// Runs a page and returns how its output differs from what the page shows; empty if it does not differ. `None`,
/// and a line that says why, if this machine denies namespaces.
pub(crate) fn differences(steps: &[Step]) -> Option<String> {
    let directory = execute(steps)?;
    let found = runs(steps).filter_map(|(number, run)| difference(directory.path(), number, run));
    Some(found.collect())
}

/// Runs a page and returns what each command printed. `None` as for [`differences`].
pub(crate) fn outputs(steps: &[Step]) -> Option<Vec<String>> {
    let directory = execute(steps)?;
    let printed = runs(steps).map(|(number, _)| result(directory.path(), number, ""));
    Some(printed.collect())
}

/// Returns the commands of a page with their numbers.
fn runs(steps: &[Step]) -> impl Iterator<Item = (usize, &Run)> {
    let numbered = steps.iter().enumerate();
    numbered.filter_map(|(number, step)| match step {
        Step::Run(run) => Some((number, run)),
        Step::File { .. } => None,
    })
}

/// Runs a page and returns its directory, with the results. `None` as for [`differences`].
fn execute(steps: &[Step]) -> Option<TempDir> {
    if !can_run("unshare", &[UNSHARE, &["true"]].concat()) {
        testkit::absent("no user may make namespaces here");
        return None;
    }
    if !["ip", "curl"].into_iter().all(testkit::require) {
        return None;
    }
    let script = script(steps);
    // The kernel counts the queues of a page to the user outside of the page's namespaces.
    let _turn = script.contains("zoid").then(QueueTurn::share);
    let directory = TempDir::with_prefix("finerail-book-").unwrap();
    fs::create_dir(directory.path().join(RESULTS)).unwrap();
    fs::write(directory.path().join(RESULTS).join("script"), script).unwrap();
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["bash", ".results/script"]);
    command.current_dir(directory.path()).env_clear();
    command.env("PATH", path()).env("HOME", directory.path());
    command.env("XDG_RUNTIME_DIR", directory.path());
    let ended = Process::start(command).wait_within(PAGE_LIMIT);
    assert!(ended.status.success(), "{ended:?}");
    Some(directory)
}

/// Returns the output of a command, or with the ending `.code` its exit code.
fn result(directory: &Path, number: usize, ending: &str) -> String {
    fs::read_to_string(directory.join(format!("{RESULTS}/{number}{ending}"))).unwrap_or_default()
}

/// The path of programs, with that of the program under test first.
fn path() -> OsString {
    let program = Path::new(env!("CARGO_BIN_EXE_finerail")).parent().unwrap();
    let others = env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(program.to_owned()).chain(env::split_paths(&others));
    env::join_paths(all).unwrap()
}

/// Writes the script that takes all steps. Each command has its output in `.results/N`, its exit code in
/// `.results/N.code`.
fn script(steps: &[Step]) -> String {
    let mut script = SETUP.to_owned();
    for (number, step) in steps.iter().enumerate() {
        let written = match step {
            Step::File { name, text } => {
                writeln!(script, "cat >{name} <<'END OF FILE'\n{text}END OF FILE")
            }
            Step::Run(run) if run.background => writeln!(
                script,
                "{{ {}\n}} >{RESULTS}/{number} 2>&1 </dev/null &\n\
                 for _ in {{1..200}}; do [[ -s {RESULTS}/{number} ]] && break; read -rt 0.1 <> <(:); done",
                run.command
            ),
            Step::Run(run) => writeln!(
                script,
                "{{ {}\n}} >{RESULTS}/{number} 2>&1 </dev/null; echo $? >{RESULTS}/{number}.code",
                run.command
            ),
        };
        written.unwrap();
    }
    script + "exit 0\n"
}

/// Returns how one command's output and exit code differ from what the page shows.
fn difference(directory: &Path, number: usize, run: &Run) -> Option<String> {
    let mut printed = result(directory, number, "");
    if run.background {
        // What a service says later is not on the page.
        let lines = run.output.as_deref().unwrap_or_default().lines().count();
        printed = printed
            .lines()
            .take(lines)
            .map(|line| format!("{line}\n"))
            .collect();
    }
    let code = result(directory, number, ".code");
    if !run.background && code.trim() != run.code.to_string() {
        return Some(format!("$ {}\nends with {code}{printed}", run.command));
    }
    let expected = run.output.as_ref()?;
    let compared = Assert::new().palette(Palette::plain()).try_eq(
        Some(&run.command),
        printed.into(),
        expected.into(),
    );
    compared.err().map(|error| error.to_string())
}
