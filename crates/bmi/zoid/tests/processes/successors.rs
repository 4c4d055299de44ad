//! A server that starts right after another one: `Busy` is reported only while another one serves.

use bmi::{Bmi, Error};
use nix::sys::signal::Signal;
use zoid::{Options, Zoid};

use crate::scene::{Process, Scene, is_long};

/// Starts a server in this process.
fn serve(scene: &Scene) -> Result<Bmi, Error> {
    let options = Options {
        instance: scene.instance.clone(),
        socket: Some(scene.socket()),
        ..Options::default()
    };
    let builder = Bmi::builder().method(Zoid::new(options));
    builder.listen("zoid://").start()
}

fn rounds() -> usize {
    if is_long() { 200 } else { 20 }
}

#[test]
fn a_server_may_follow_one_that_has_finalized_and_whose_process_lives() {
    let scene = Scene::new();
    for round in 0..rounds() {
        let mut first = scene.server();
        assert_eq!(first.ask("finalize"), "ok");
        let second = serve(&scene).unwrap_or_else(|error| panic!("round {round}: {error}"));
        second.finalize();
        // Not dropped yet: finalize is sufficient, also in one process.
        serve(&scene).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

// [DEATH-12]
#[test]
fn a_server_may_follow_one_that_was_killed_before_the_system_has_buried_it() {
    let scene = Scene::with(&[("total", "64M")]);
    for round in 0..rounds() {
        let mut first = scene.server();
        // Memory that the dying process must free before it is dead.
        first.ask("memory 60000000");
        first.signal(Signal::SIGKILL);
        if round % 2 == 0 {
            // The end of its output is the first sign of its death that other processes see.
            assert_eq!(first.hear(u64::MAX), None);
        }
        serve(&scene).unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

// [CTL-12]
#[test]
fn a12_a_server_that_comes_while_another_serves_is_refused_in_the_end() {
    let scene = Scene::new();
    let mut first: Process = scene.server();
    assert_eq!(serve(&scene).err(), Some(Error::Busy));
    assert_eq!(first.ask("finalize"), "ok");
}
