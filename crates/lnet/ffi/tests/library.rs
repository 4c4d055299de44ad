//! What the shared library exports, and what is published of it.

mod common;

use std::process::Command;

use testkit::c::declared;

use common::lnet;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/finerail_lnet.h");

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let exported = lnet().exported();
    assert_eq!(exported, declared(HEADER));
    assert!(exported.len() > 20, "{exported:?}");
}

#[test]
fn each_function_has_a_man_page_that_says_what_it_does() {
    let place = tempfile::tempdir().unwrap();
    let script = testkit::workspace::root().join("contrib/man-of-header");
    let status = Command::new(script).arg(HEADER).arg(place.path()).status();
    assert!(status.unwrap().success());
    for function in declared(HEADER) {
        let page = std::fs::read_to_string(place.path().join(format!("{function}.3"))).unwrap();
        let description = page.split(".SH DESCRIPTION\n").nth(1).unwrap();
        assert!(description.len() > 40, "{function}: {description}");
        assert!(page.contains(&format!("{function}(")), "{page}");
    }
    // No text of the header looks like a request to the formatter.
    for page in std::fs::read_dir(place.path()).unwrap() {
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
        const REQUESTS: [&str; 6] = [".TH", ".SH", ".PP", ".nf", ".fi", ".BR"];
        let requests = text.lines().filter(|line| line.starts_with('.'));
        let known = |line: &str| REQUESTS.iter().any(|known| line.starts_with(known));
        assert_eq!(requests.filter(|line| !known(line)).count(), 0, "{text}");
    }
}

#[test]
fn the_program_of_the_readme_compiles_and_says_why_nobody_answers() {
    let readme =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).unwrap();
    let program = program.split("```").next().unwrap();
    let port = testkit::port().to_string();
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("hello.c");
    // Fast: nobody is there.
    let program = program.replace("9988", &port).replace("5000", "300");
    std::fs::write(&source, program).unwrap();
    let library = lnet();
    let program = library.compile("cc", &["-std=c89"], source);
    let output = Command::new(program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("127.0.0.2@tcp"), "{said}");
}
