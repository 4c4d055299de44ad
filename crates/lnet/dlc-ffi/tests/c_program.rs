//! A C program, compiled by the system's compiler, uses the library against a running node.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use lnet_node::NodeOptions;
use lnet_noded::{ControlEndpoint, ControlOptions, ManagedNode};
use tempfile::TempDir;
use testkit::c::{C_MODES, CLibrary, CPP_MODES, declared, succeed, valgrind};

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
        let options = NodeOptions {
            port: testkit::port(),
            ..NodeOptions::default()
        };
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

    /// Runs the program that uses all functions, and returns what the program printed.
    fn run(&self, under: fn(&Path) -> Command) -> String {
        let library = dlc();
        let program = library.compile("cc", &["-std=c99"], "tests/policies.c");
        let mut command = under(&program);
        command.arg(self.endpoint.path());
        succeed(command)
    }
}

fn dlc() -> CLibrary {
    CLibrary::new(
        env!("CARGO_MANIFEST_DIR"),
        "finerail_dlc",
        "libfinerail_dlc.so",
    )
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_c_program_uses_all_functions() {
    assert_eq!(Bed::new().run(|program| Command::new(program)), PRINTED);
}

#[test]
fn the_c_program_has_no_leak_and_no_error_under_valgrind() {
    if testkit::require("valgrind") {
        let valgrind = |program: &Path| valgrind(program, "definite,indirect,possible");
        assert_eq!(Bed::new().run(valgrind), PRINTED);
    }
}

/// The example of the README, compiled as the README describes, with flags from `pkg-config`.
#[test]
fn the_example_of_the_readme_speaks_to_the_default_node() {
    if !testkit::require("pkg-config") {
        return;
    }
    let bed = Bed::new();
    let place = bed.directory.path();
    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let source = readme.split("```c\n").nth(1).unwrap();
    let source = source.split("```").next().unwrap();
    std::fs::write(place.join("policies.c"), source).unwrap();
    let program = place.join("policies");
    let library = dlc();
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-o"]).arg(&program);
    cc.arg(place.join("policies.c"));
    cc.args(flags(place, library.directory()).split_whitespace());
    succeed(cc);
    // The default path of a node's control socket.
    std::fs::create_dir(place.join("finerail")).unwrap();
    symlink(bed.endpoint.path(), place.join("finerail/control.sock")).unwrap();
    let mut run = Command::new(program);
    run.env("XDG_RUNTIME_DIR", place);
    run.env("LD_LIBRARY_PATH", library.directory());
    assert_eq!(succeed(run), "0: tcp1 has priority 0\n");
}

/// The output of `pkg-config` for a library that is installed as the README describes.
fn flags(prefix: &Path, library: &Path) -> String {
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    std::fs::create_dir_all(&include).unwrap();
    let header = here().join("include/finerail_dlc.h");
    std::fs::copy(header, include.join("finerail_dlc.h")).unwrap();
    symlink(library, lib).unwrap();
    let template = std::fs::read_to_string(here().join("finerail_dlc.pc.in")).unwrap();
    let made = template
        .replace("@prefix@", prefix.to_str().unwrap())
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    std::fs::write(prefix.join("finerail_dlc.pc"), made).unwrap();
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", "finerail_dlc"]);
    pkg_config.env("PKG_CONFIG_PATH", prefix);
    succeed(pkg_config)
}

#[test]
fn the_header_compiles_alone_in_every_dialect() {
    let bed = tempfile::tempdir().unwrap();
    let source = bed.path().join("alone.c");
    let program = "#include <finerail_dlc.h>\nint main(void) { return 0; }\n";
    std::fs::write(&source, program).unwrap();
    let library = dlc();
    for mode in C_MODES {
        let _compiled = library.compile("cc", &[mode], &source);
    }
    for mode in CPP_MODES {
        let _compiled = library.compile("c++", &[mode, "-x", "c++"], &source);
    }
}

/// The library exports no internal functions, and every function of the header exists.
#[test]
fn exactly_the_functions_of_the_header_are_exported() {
    let declared = declared(here().join("include/finerail_dlc.h"));
    assert_eq!(dlc().exported(), declared);
    assert!(declared.len() > 10, "{declared:?}");
}
