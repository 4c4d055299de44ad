//! The Debian package: every file of the package exists, or `contrib/deb` generates it.

#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use common::process::run;

/// The directory of the files that `contrib/deb` generates.
const GENERATED: &str = "../../target/package/";

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns `[package.metadata.deb]` of this crate.
fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    command.current_dir(here());
    let text = run(command).expect_code(0).out;
    let all: Value = serde_json::from_str(&text).unwrap();
    let packages = all["packages"].as_array().unwrap();
    let this = packages
        .iter()
        .find(|package| package["name"] == "finerail");
    this.unwrap()["metadata"]["deb"].clone()
}

/// Returns the sources and destinations of the files.
fn assets(metadata: &Value) -> Vec<(String, String)> {
    let assets = metadata["assets"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    assets
        .map(|asset| (word(&asset[0]), word(&asset[1])))
        .collect()
}

/// Returns whether there is at least one file at a path, whose last part may begin with `*`.
fn has_files(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let Some(end) = name.strip_prefix('*') else {
        return path.is_file();
    };
    let directory = fs::read_dir(path.parent().unwrap());
    directory.is_ok_and(|mut files| {
        files.any(|file| file.unwrap().file_name().to_str().unwrap().ends_with(end))
    })
}

#[test]
fn every_asset_of_the_package_exists_or_is_generated() {
    let directory = tempfile::tempdir().unwrap();
    let generated = directory.path().join("package");
    let mut command = Command::new(here().join("../../contrib/deb"));
    command.args(["--generate", env!("CARGO_BIN_EXE_finerail")]);
    command.arg(&generated);
    run(command).expect_code(0);
    let assets = assets(&metadata());
    assert!(assets.len() >= 10, "{assets:?}");
    for (source, _) in assets
        .iter()
        .filter(|(source, _)| source != "../../target/dist/finerail")
    {
        let path = match source.strip_prefix(GENERATED) {
            Some(name) => generated.join(name),
            None => here().join(source),
        };
        assert!(has_files(&path), "{source}");
    }
    assert!(!has_files(&generated.join("man/*.9")), "it can fail");
}

#[test]
fn a_release_is_stripped_and_its_debug_information_is_beside_it() {
    let workspace = fs::read_to_string(here().join("../../Cargo.toml")).unwrap();
    let (_, release) = workspace.split_once("[profile.release]\n").unwrap();
    let settings = release.lines().take_while(|line| !line.starts_with('['));
    let has = |wanted: &str| settings.clone().any(|line| line == wanted);
    assert!(has("strip = \"symbols\"") && has("debug = \"line-tables-only\""));
    if !testkit::require("objcopy") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(here().join("../../contrib/release"));
    let whole = env!("CARGO_BIN_EXE_finerail");
    command.args(["--separate", whole]).arg(directory.path());
    run(command).expect_code(0);
    let program = directory.path().join("finerail");
    let has = |path: &Path, section: &str| {
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(section.len())
            .any(|at| at == section.as_bytes())
    };
    assert!(has(Path::new(whole), "\0.symtab\0"), "it can fail");
    assert!(!has(&program, "\0.symtab\0") && has(&program, "\0.gnu_debuglink\0"));
    assert!(has(&program.with_extension("debug"), "\0.symtab\0"));
    run({
        let mut version = Command::new(&program);
        version.arg("--version");
        version
    })
    .expect_code(0);
}

#[test]
fn the_package_has_what_its_unit_and_its_scripts_name() {
    let metadata = metadata();
    let installed: Vec<String> = assets(&metadata)
        .into_iter()
        .map(|(source, to)| match to.strip_suffix('/') {
            Some(directory) => format!("/{directory}/{}", source.rsplit('/').next().unwrap()),
            None => format!("/{to}"),
        })
        .collect();
    let holds = |path: &str| installed.iter().any(|file| file == path);
    let unit = fs::read_to_string(here().join("../../contrib/finerail-node.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/finerail node"));
    assert!(holds("/usr/bin/finerail"));
    assert!(unit.contains("EnvironmentFile=-/etc/finerail/node.conf"));
    for file in metadata["conf-files"].as_array().unwrap() {
        assert!(holds(file.as_str().unwrap()), "{file}");
    }
    assert!(holds("/usr/lib/systemd/system/finerail-node.service"));
    let foreign = ["/etc/lnet.conf", "/usr/bin/lnetctl", "/usr/sbin/lnetctl"];
    assert!(
        !foreign.iter().any(|path| holds(path)),
        "Lustre's own packages may have them"
    );
    for script in ["postinst", "prerm", "postrm"] {
        let mut command = Command::new("sh");
        command.arg("-n").arg(here().join("debian").join(script));
        run(command).expect_code(0);
    }
}
