//! What a hostile peer does: bounded floods, forged answers, replies that nobody reads, half-open connections.
//!
//! Each attack has a limit of connections and bytes, and passes if the node answers a new peer while the attack goes
//! on. No attack sends what can stop or crash a kernel node by its contents, but all of them load the node: they are for
//! a node of one's own.

use std::time::{Duration, Instant};

use lnet_wire::{Ack, Body, Ctype, Handle, KsockHeader, Reply};

use crate::link::Link;
use crate::probe::{Check, Probe, Risk, Run, SINK_MAX, Stop};

/// Connections of one attack.
const CONNECTIONS: usize = 64;

/// Connections that are opened and closed one after another.
const FLOOD: usize = 512;

/// Forged answers on one connection.
const FORGED: u64 = 2000;

/// Bytes of requests whose replies are not read.
const UNREAD_MAX: usize = 4 << 20;

/// A write that takes longer shows that the node reads no more.
const STALL: Duration = Duration::from_secs(1);

/// The attacks of `finerail conform --hostile`.
pub static ATTACKS: [Check; 6] = [
    attack("half-open", "64 connections that send nothing", half_open),
    attack(
        "half-hello",
        "64 connections that send half a handshake",
        half_hello,
    ),
    attack(
        "connect-flood",
        "512 connections, each closed at once",
        connect_flood,
    ),
    attack(
        "unread-replies",
        "4 MiB of pings whose replies are not read",
        unread_replies,
    ),
    attack(
        "forged-answers",
        "2000 answers to messages that the node never sent",
        forged_answers,
    ),
    attack("garbage", "64 connections that send random bytes", garbage),
];

const fn attack(
    id: &'static str,
    title: &'static str,
    run: fn(&mut Probe<'_>) -> Result<(), Stop>,
) -> Check {
    Check::new((id, "", title), Risk::Intrusive, Run::Tcp(run))
}

/// Checks that the node answers a new peer while the links of an attack are open.
fn survives(probe: &mut Probe<'_>, held: Vec<Link>) -> Result<(), Stop> {
    let answered = probe.ping_afresh(SINK_MAX).map(drop);
    for mut link in held {
        link.end_writing();
    }
    answered
}

/// Opens as many of these connections as the node accepts.
fn connections(probe: &mut Probe<'_>) -> Vec<Link> {
    let all = (0..CONNECTIONS).map_while(|_| probe.connect().ok());
    all.collect()
}

fn half_open(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let held = connections(probe);
    survives(probe, held)
}

fn half_hello(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut held = connections(probe);
    let hello = crate::probe::hello_of(&probe.hello(Ctype::CONTROL));
    let (half, _) = hello.split_at(hello.len() / 2);
    let start = [&probe.request(), half].concat();
    for link in &mut held {
        link.send(&start);
    }
    survives(probe, held)
}

fn connect_flood(probe: &mut Probe<'_>) -> Result<(), Stop> {
    for _ in 0..FLOOD {
        if probe.is_over() {
            break;
        }
        match probe.connect() {
            Ok(mut link) => link.end_writing(),
            Err(_) => break,
        }
    }
    survives(probe, Vec::new())
}

fn unread_replies(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let mut sent = 0;
    while sent < UNREAD_MAX {
        let mut bytes = Vec::new();
        for _ in 0..256 {
            let (header, _) = probe.ping_header(SINK_MAX);
            bytes.extend(link.message(KsockHeader::LNET, &header, &[])?);
        }
        let begun = Instant::now();
        link.send(&bytes);
        sent += bytes.len();
        if begun.elapsed() >= STALL || probe.is_over() {
            break;
        }
    }
    survives(probe, vec![link])
}

fn forged_answers(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut link = probe.open(Ctype::CONTROL)?;
    let mut bytes = Vec::new();
    for number in 0..FORGED {
        let dst_wmd = Handle {
            interface: probe.incarnation ^ number,
            object: number << 1 | 1,
        };
        let body = match number % 2 {
            0 => Body::Reply(Reply { dst_wmd }),
            _ => Body::Ack(Ack {
                dst_wmd,
                match_bits: number,
                mlength: 0,
            }),
        };
        let header = probe.header(0, body);
        bytes.extend(link.message(KsockHeader::LNET, &header, &[])?);
    }
    link.send(&bytes);
    survives(probe, vec![link])
}

fn garbage(probe: &mut Probe<'_>) -> Result<(), Stop> {
    let mut held = connections(probe);
    // The constants of Knuth's MMIX generator: the same bytes in each run.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for (number, link) in held.iter_mut().enumerate() {
        let random = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        });
        let random: Vec<u8> = random.take(1024).collect();
        // Every other connection begins as a node's does.
        let start = if number % 2 == 0 {
            probe.request()
        } else {
            Vec::new()
        };
        link.send(&[start, random].concat());
    }
    survives(probe, held)
}
