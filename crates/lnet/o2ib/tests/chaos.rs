//! Random worlds with faults: each message is reported once, each byte is right, no memory is touched after it was taken
//! back, nothing is left over. Three planted defects are found.

#![expect(
    clippy::panic,
    reason = "clippy knows only functions with #[test] as tests, not their helpers"
)]

use std::time::Duration;

use lnet_o2ib::fabric::{Fabric, NI, World, address};
use lnet_o2ib::{Defect, NiTuning, O2ibConfig, PortState, TxId};

/// Worlds of an ordinary run, and with `FINERAIL_LONG=1`.
const SEEDS: u64 = 300;
const SEEDS_LONG: u64 = 20_000;
/// Worlds of long runs that broke a rule once.
const SEEDS_KEPT: [u64; 1] = [11_775];

/// Makes a random world.
fn world(seed: u64, defect: Option<Defect>, below: &impl Fn(u64) -> u64) -> World {
    let config = O2ibConfig {
        cksum: below(2) == 0,
        ..O2ibConfig::default()
    };
    let tuning = || NiTuning {
        peer_credits: 1 + below(12) as u8,
        peer_credits_hiw: below(12) as u8,
        concurrent_sends: below(4) as u16,
        conns_per_peer: 1 + below(3) as u8,
        timeout: None,
    };
    let tunings: Vec<NiTuning> = (0..2 + below(2)).map(|_| tuning()).collect();
    let mut world = World::new(seed, config, &tunings);
    for node in &mut world.nodes {
        node.program.offers_memory = below(2) == 0;
        if let Some(defect) = defect {
            node.lnd.plant(defect);
        }
    }
    world
}

/// Lets one random thing happen.
fn disturb(world: &mut World, below: &impl Fn(u64) -> u64) {
    let count = world.nodes.len();
    let from = below(count as u64) as usize;
    let to = (from + 1 + below(count as u64 - 1) as usize) % count;
    match below(18) {
        0..=4 => drop(world.put(from, to, [0, 100, 3976, 3977, 9000][below(5) as usize])),
        5..=7 => drop(world.get(from, to, [10, 3977, 20_000][below(3) as usize])),
        8 => drop(world.ack(from, to)),
        9 => drop(world.fabric.break_off(from)),
        10 => world.fabric.cut(from, below(3) == 0),
        11 => world.fabric.split_memory(1 + below(20) as u32),
        12 => {
            world.nodes[from].program.holds = below(2) == 0;
            while world.release(from) {}
        }
        13 => world.nodes[from].program.drops ^= true,
        14 => {
            let state = [PortState::Up, PortState::Down, PortState::Removed][below(3) as usize];
            world.fabric.port(from, address(from), state);
        }
        15 => {
            // It closes its connections by itself, with transfers under way at both ends.
            let (now, node) = (world.now, &mut world.nodes[from]);
            node.lnd.ni_went_down(NI, now, &mut node.program);
        }
        16 => world.fabric.move_address(from, address(from)),
        _ => world.pass(Duration::from_millis(below(30_000))),
    }
    for _ in 0..below(40) {
        world.step();
    }
}

/// Plays one world. Returns the broken rules.
fn play(seed: u64, defect: Option<Defect>) -> Vec<String> {
    let draw = Fabric::new(seed ^ 0x5eed);
    let below = |limit: u64| draw.draw(limit);
    let mut world = world(seed, defect, &below);
    for _ in 0..60 + below(60) {
        disturb(&mut world, &below);
    }
    let count = world.nodes.len();
    for node in 0..count {
        world.fabric.cut(node, false);
        world.fabric.port(node, address(node), PortState::Up);
        world.nodes[node].program.holds = false;
        world.nodes[node].program.drops = false;
        while world.release(node) {}
    }
    world.pass(Duration::from_secs(200));
    // After all faults, messages arrive again.
    let put = |from| (from, world.put(from, (from + 1) % count, 9000));
    let last: Vec<_> = (0..count).map(put).collect();
    world.pass(Duration::from_secs(200));
    let has_failed =
        |(from, tx): &&(usize, TxId)| world.nodes[*from].program.sent.get(tx) != Some(&Ok(()));
    let failed = last.iter().filter(has_failed);
    let failed = failed.map(|(from, tx)| format!("node {from}: {tx:?} failed after all faults"));
    let mut found: Vec<String> = failed.collect();
    found.extend(world.end());
    found
}

#[test]
fn no_seed_breaks_a_rule() {
    let is_long = std::env::var_os("FINERAIL_LONG").is_some();
    let most = if is_long { SEEDS_LONG } else { SEEDS };
    for seed in SEEDS_KEPT.into_iter().chain(0..most) {
        let found = play(seed, None);
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
}

#[track_caller]
fn assert_found(defect: Defect, words: &[&str]) {
    for seed in 0..SEEDS {
        let found = play(seed, Some(defect));
        let fits = |what: &&String| words.iter().any(|words| what.contains(words));
        if let Some(what) = found.iter().find(fits) {
            println!("{defect:?}: seed {seed}: {what}");
            return;
        }
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
    panic!("{defect:?} was not noticed in {SEEDS} worlds");
}

#[test]
fn a_credit_that_is_given_back_twice_is_found() {
    assert_found(
        Defect::CreditTwice,
        &["no receive buffer", "failed after all faults"],
    );
}

// [IB-31]
#[test]
fn a_transfer_that_is_reported_before_the_device_has_stopped_is_found() {
    assert_found(Defect::EarlyReport, &["not registered", "has not given"]);
}

#[test]
fn a_key_of_another_transfer_is_found() {
    assert_found(
        Defect::FirstKey,
        &["has not given", "outside the memory", "is wrong"],
    );
}
