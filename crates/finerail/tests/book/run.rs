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

use super::page::{Run, Step};
use crate::common::can_run;
use crate::common::process::Process;

/// Makes the namespaces. The end of `unshare` ends every process of a page.
const UNSHARE: &[&str] = &[
    "--user",
    "--map-root-user",
    "--net",
    "--mount-proc",
    "--pid",
    "--fork",
    "--kill-child",
];

/// How long the commands of a page may take: a limit that only a hang reaches.
const PAGE_LIMIT: Duration = Duration::from_secs(300);

/// Where outputs and exit codes are, in the directory of the page.
const RESULTS: &str = ".results";

/// Runs a page and returns how its output differs from what the page shows; empty if it does not differ. `None`,
/// and a line that says why, if this machine denies namespaces.
pub(crate) fn differences(steps: &[Step]) -> Option<String> {
    if !can_run("unshare", &[UNSHARE, &["true"]].concat()) {
        testkit::absent("no user may make namespaces here");
        return None;
    }
    let directory = TempDir::with_prefix("finerail-book-").unwrap();
    fs::create_dir(directory.path().join(RESULTS)).unwrap();
    fs::write(directory.path().join(RESULTS).join("script"), script(steps)).unwrap();
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["bash", ".results/script"]);
    command.current_dir(directory.path()).env_clear();
    command.env("PATH", path()).env("HOME", directory.path());
    command.env("XDG_RUNTIME_DIR", directory.path());
    let ended = Process::start(command).wait_within(PAGE_LIMIT);
    assert!(ended.status.success(), "{ended:?}");
    let runs = steps
        .iter()
        .enumerate()
        .filter_map(|(number, step)| match step {
            Step::Run(run) => difference(directory.path(), number, run),
            Step::File { .. } => None,
        });
    Some(runs.collect())
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
    let mut script = "ip link set lo up\nset -o pipefail\n".to_owned();
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
    let result = |end: &str| {
        fs::read_to_string(directory.join(format!("{RESULTS}/{number}{end}"))).unwrap_or_default()
    };
    let mut printed = result("");
    if run.background {
        // What a service says later is not on the page.
        let lines = run.output.as_deref().unwrap_or_default().lines().count();
        printed = printed
            .lines()
            .take(lines)
            .map(|line| format!("{line}\n"))
            .collect();
    }
    let code = result(".code");
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
