//! A C program, compiled by the system's compiler, uses the library against a running node.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::env;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lnet_node::NodeOptions;
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};
use tempfile::TempDir;

/// The output of the `show` functions.
const PRINTED: &str = "\
net_sel_pol:
    - id: 0
      net: tcp[1-5]
      priority: 2
    - id: 1
      net: o2ib
      priority: 1
nid_sel_pol:
    - id: 0
      nid: 10.0.0.[1-4]@tcp
      priority: 0
peer_sel_pol:
    - id: 0
      src_nid: 10.0.0.1@tcp
      dst_nid: 10.0.9.*@tcp
      priority: 7
";

struct Bed {
    _node: ManagedNode,
    endpoint: ControlEndpoint,
    directory: TempDir,
}

impl Bed {
    fn new() -> Self {
        let yaml = "net:\n- net type: tcp\n  local NI(s):\n  - nid: 127.0.0.1@tcp\n";
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = NodeOptions {
            port: free.local_addr().unwrap().port(),
            ..NodeOptions::default()
        };
        drop(free);
        let node = lnet_noded::start(&lnet_config::parse(yaml).unwrap(), options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let options = ControlOptions { path, group: None };
        let endpoint = ControlEndpoint::open(&node, &options).unwrap();
        Self {
            _node: node,
            endpoint,
            directory,
        }
    }

    fn program(&self) -> PathBuf {
        let program = self.directory.path().join("policies");
        let source = here().join("tests/policies.c");
        let mut cc = compiler("cc", "-std=c99");
        cc.arg(source).arg("-o").arg(&program);
        cc.arg("-L").arg(library_directory()).arg("-lfinerail_dlc");
        succeed(&mut cc);
        program
    }

    fn run(&self, tool: &[&str]) -> Output {
        let program = self.program().into_os_string().into_string().unwrap();
        let words: Vec<&str> = tool.iter().copied().chain([program.as_str()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(self.endpoint.path());
        command.env("LD_LIBRARY_PATH", library_directory());
        succeed(&mut command)
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Cargo places the library beside this test's program.
fn library_directory() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn compiler(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror"]);
    command.arg("-I").arg(here().join("include"));
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{said}");
    output
}

#[test]
fn a_c_program_uses_all_functions() {
    let output = Bed::new().run(&[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), PRINTED);
}

#[test]
fn the_c_program_has_no_leak_and_no_error_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind is not installed");
        return;
    }
    let valgrind = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"];
    let output = Bed::new().run(&valgrind);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), PRINTED);
}

/// The example of the README, compiled as the README describes, with flags from `pkg-config`.
#[test]
fn the_example_of_the_readme_speaks_to_the_default_node() {
    let bed = Bed::new();
    let place = bed.directory.path();
    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let source = readme.split("```c\n").nth(1).unwrap();
    let source = source.split("```").next().unwrap();
    std::fs::write(place.join("policies.c"), source).unwrap();
    let program = place.join("policies");
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-o"]).arg(&program);
    cc.arg(place.join("policies.c"));
    let Some(flags) = flags(place) else {
        eprintln!("skipped: pkg-config is not installed");
        return;
    };
    succeed(cc.args(flags.split_whitespace()));
    // The default path of a node's control socket.
    std::fs::create_dir(place.join("finerail")).unwrap();
    symlink(bed.endpoint.path(), place.join("finerail/control.sock")).unwrap();
    let mut run = Command::new(program);
    run.env("XDG_RUNTIME_DIR", place);
    run.env("LD_LIBRARY_PATH", library_directory());
    let output = succeed(&mut run);
    assert_eq!(output.stdout, b"0: tcp1 has priority 0\n");
}

/// The output of `pkg-config` for a library that is installed as the README describes.
fn flags(prefix: &Path) -> Option<String> {
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    std::fs::create_dir_all(&include).unwrap();
    let header = here().join("include/finerail_dlc.h");
    std::fs::copy(header, include.join("finerail_dlc.h")).unwrap();
    symlink(library_directory(), lib).unwrap();
    let template = std::fs::read_to_string(here().join("finerail_dlc.pc.in")).unwrap();
    let made = template
        .replace("@prefix@", prefix.to_str().unwrap())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    std::fs::write(prefix.join("finerail_dlc.pc"), made).unwrap();
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", "finerail_dlc"]);
    pkg_config.env("PKG_CONFIG_PATH", prefix);
    pkg_config.stdin(Stdio::null());
    let output = pkg_config.output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_header_compiles_alone_in_every_dialect() {
    let bed = tempfile::tempdir().unwrap();
    let source = bed.path().join("alone.c");
    std::fs::write(
        &source,
        "#include <finerail_dlc.h>\nint main(void) { return 0; }\n",
    )
    .unwrap();
    for standard in ["-std=c89", "-std=c99", "-std=c11", "-std=c17", "-std=gnu2x"] {
        succeed(
            compiler("cc", standard)
                .args(["-fsyntax-only"])
                .arg(&source),
        );
    }
    for standard in ["-std=c++98", "-std=c++11", "-std=c++20"] {
        let mut command = compiler("g++", standard);
        succeed(command.args(["-x", "c++", "-fsyntax-only"]).arg(&source));
    }
}

/// The library exports no internal functions, and every function of the header exists.
#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    let library = library_directory().join("libfinerail_dlc.so");
    let listed = succeed(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    );
    let mut exported: Vec<String> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(str::to_owned)
        .collect();
    exported.sort();
    let header = std::fs::read_to_string(here().join("include/finerail_dlc.h")).unwrap();
    let mut declared: Vec<String> = header
        .lines()
        .filter(|line| {
            line.starts_with("int ")
                || line.starts_with("void ")
                || line.starts_with("const char *")
        })
        .filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back())
        .map(str::to_owned)
        .collect();
    declared.sort();
    assert_eq!(exported, declared);
}
