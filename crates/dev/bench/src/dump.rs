//! `finerail-bench dump`: measures how fast `finerail dump` reads captures, and in how much memory.
//!
//! ```text
//!   captures ── again and again, as new connections, later each time ──▶ pipe ──▶ finerail dump -
//!   this process                                                                 its CPU time, its peak memory
//! ```
//!
//! The bytes come from a pipe, so that no disk limits the figure, and the CPU time is that of the reading process
//! alone. Its peak memory after eight times the bytes tells whether it reads in a stream.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use comfy_table::{CellAlignment, Table, presets};
use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

use super::child::cpu_of;

/// The target, in bytes a second of one core.
const TARGET: f64 = 500e6;
/// How many times more the second round of a row reads than the first.
const LONGER: u64 = 8;
/// The length of a pcap file's header.
const FILE_HEADER: usize = 24;
/// The length of the header of a packet in a pcap file: seconds, microseconds, two lengths.
const PACKET_HEADER: usize = 16;
/// The place of the two ports in a packet of Ethernet, IPv4 without options and TCP.
const PORTS: [usize; 2] = [34, 36];
/// The port on which LNet nodes listen.
const LNET: u16 = 988;

#[derive(clap::Args)]
#[command(after_help = "\
The captures (pcap, little-endian, microseconds, Ethernet and IPv4) are repeated as new connections
until there are enough bytes. The figure is bytes for each second of CPU time of 'finerail dump',
which is taken from the directory of this program. The limit is copying the same bytes in memory.

Examples
  finerail-bench dump rpcs.pcap
  finerail-bench dump --short --json *.pcap
")]
pub(super) struct DumpArgs {
    /// Captures of TCP traffic with Lustre servers
    #[arg(required = true)]
    captures: Vec<PathBuf>,
    /// Read 1.3 GB a row instead of 11 GB
    #[arg(long)]
    short: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of one way to read.
#[derive(Serialize)]
struct Row {
    options: &'static str,
    bytes: u64,
    cpu_seconds: f64,
    bytes_per_second: f64,
    copied_bytes_per_second: f64,
    ratio: f64,
    peak_bytes: u64,
    peak_bytes_of_eighth: u64,
    target_bytes_per_second: f64,
    met: bool,
}

/// Packets that are repeated.
struct Traffic {
    header: Vec<u8>,
    packets: Vec<Packet>,
    /// From the first packet to that of the next repetition, in microseconds.
    period: u64,
}

/// A packet with its time since the first one, in microseconds.
struct Packet {
    time: u64,
    bytes: Vec<u8>,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: &DumpArgs) -> anyhow::Result<String> {
    let traffic = Traffic::read(&args.captures)?;
    let bytes: u64 = if args.short {
        150_000_000
    } else {
        1_250_000_000
    };
    let rows: Vec<Row> = ["", "--rpc-summary", "--rpc"]
        .into_iter()
        .map(|options| measure(&traffic, options, bytes))
        .collect::<anyhow::Result<_>>()?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    Ok(text(&rows))
}

fn measure(traffic: &Traffic, options: &'static str, bytes: u64) -> anyhow::Result<Row> {
    let (.., eighth) = dumped(traffic, options, bytes)?;
    let (written, cpu, peak) = dumped(traffic, options, bytes * LONGER)?;
    let speed = written as f64 / cpu.as_secs_f64();
    let copied = copying(traffic);
    Ok(Row {
        options,
        bytes: written,
        cpu_seconds: cpu.as_secs_f64(),
        bytes_per_second: speed,
        copied_bytes_per_second: copied,
        ratio: speed / copied,
        peak_bytes: peak,
        peak_bytes_of_eighth: eighth,
        target_bytes_per_second: TARGET,
        met: speed >= TARGET,
    })
}

/// Lets `finerail dump` read at least this many bytes. Returns how many there were, the CPU time, and the most memory
/// in bytes until the last bytes were written.
fn dumped(traffic: &Traffic, options: &str, bytes: u64) -> anyhow::Result<(u64, Duration, u64)> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let program = own.with_file_name("finerail");
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let mut child = Command::new(&program)
        .arg("dump")
        .args(options.split_whitespace())
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut stdin = child.stdin.take().context("its standard input is gone")?;
    let fed = traffic.write(&mut stdin, bytes);
    let peak = peak_memory(child.id());
    drop(stdin);
    let status = child.wait()?;
    let written = fed.context("finerail dump does not read on")?;
    ensure!(status.success(), "finerail dump {options}: {status}");
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = cpu_of(&after).saturating_sub(cpu_of(&before));
    Ok((written, cpu, peak?))
}

/// Returns the most memory that a process has had so far, in bytes.
fn peak_memory(process: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kibibytes.context("the system does not report the memory of a process")? * 1024)
}

/// Returns how many bytes a second this core copies, packet by packet.
fn copying(traffic: &Traffic) -> f64 {
    const ROUNDS: usize = 200;
    let begin = Instant::now();
    let mut copied = 0;
    let mut buffer = Vec::new();
    for _ in 0..ROUNDS {
        buffer.clear();
        for packet in &traffic.packets {
            buffer.extend_from_slice(std::hint::black_box(&packet.bytes));
        }
        copied += buffer.len();
    }
    copied as f64 / begin.elapsed().as_secs_f64()
}

impl Traffic {
    fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut traffic = Self {
            header: Vec::new(),
            packets: Vec::new(),
            period: 0,
        };
        for file in files {
            let bytes = fs::read(file).with_context(|| file.display().to_string())?;
            traffic
                .append(&bytes)
                .with_context(|| file.display().to_string())?;
        }
        ensure!(!traffic.packets.is_empty(), "the captures have no packet");
        Ok(traffic)
    }

    /// Appends a capture, a millisecond after what is there.
    fn append(&mut self, file: &[u8]) -> anyhow::Result<()> {
        const MAGIC: [u8; 4] = 0xA1B2_C3D4_u32.to_le_bytes();
        const ETHERNET: [u8; 4] = 1_u32.to_le_bytes();
        const PAUSE: u64 = 1000;
        let Some((header, mut rest)) = file.split_at_checked(FILE_HEADER) else {
            bail!("not a pcap file");
        };
        ensure!(
            header.starts_with(&MAGIC) && header.ends_with(&ETHERNET),
            "not a little-endian pcap file of Ethernet with microseconds"
        );
        self.header = header.to_vec();
        let (start, mut first) = (self.period, None);
        while let Some((packet, behind)) = rest.split_at_checked(PACKET_HEADER) {
            let word = |at: usize| -> u64 {
                // Four bytes always make a word.
                let bytes = packet[at..at + 4].try_into().unwrap_or_default();
                u32::from_le_bytes(bytes).into()
            };
            let length = usize::try_from(word(8))?;
            let Some((bytes, behind)) = behind.split_at_checked(length) else {
                bail!("the last packet is cut short");
            };
            let time = word(0) * 1_000_000 + word(4);
            let since = start + time.saturating_sub(*first.get_or_insert(time));
            self.packets.push(Packet {
                time: since,
                bytes: bytes.to_vec(),
            });
            self.period = since + PAUSE;
            rest = behind;
        }
        Ok(())
    }

    /// Writes a pcap file of at least this many bytes. Returns how many were written.
    fn write(&self, out: &mut impl Write, bytes: u64) -> std::io::Result<u64> {
        out.write_all(&self.header)?;
        let mut written = self.header.len() as u64;
        let mut block = Vec::new();
        let mut round: u64 = 0;
        while written < bytes {
            block.clear();
            self.repeat(round, &mut block);
            out.write_all(&block)?;
            written += block.len() as u64;
            round += 1;
        }
        Ok(written)
    }

    /// Appends one repetition, whose connections are new ones.
    fn repeat(&self, round: u64, out: &mut Vec<u8>) {
        /// A capture's connections have ports next to each other.
        const APART: u64 = 8;
        const DIFFERENT: u64 = 60_000;
        const BEGIN: u64 = 1_700_000_000_000_000;
        let shift = (round * APART % DIFFERENT) as u16;
        for packet in &self.packets {
            let time = BEGIN + round * self.period + packet.time;
            let length = packet.bytes.len() as u32;
            let words = [
                (time / 1_000_000) as u32,
                (time % 1_000_000) as u32,
                length,
                length,
            ];
            out.extend(words.into_iter().flat_map(u32::to_le_bytes));
            let begin = out.len();
            out.extend_from_slice(&packet.bytes);
            for port in PORTS.map(|at| at + begin) {
                if let Some(bytes) = out.get_mut(port..port + 2) {
                    let port = u16::from_be_bytes([bytes[0], bytes[1]]);
                    if port != LNET {
                        bytes.copy_from_slice(&port.wrapping_add(shift).to_be_bytes());
                    }
                }
            }
        }
    }
}

fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "dump",
        "read",
        "CPU",
        "a core reads",
        "of copying",
        "memory, an eighth",
        "all",
        "target",
        "",
    ]);
    for row in rows {
        let options = if row.options.is_empty() {
            "messages"
        } else {
            row.options
        };
        let megabytes = |bytes: f64| format!("{:.0} MB", bytes / 1e6);
        table.add_row([
            options.to_owned(),
            megabytes(row.bytes as f64),
            format!("{:.2} s", row.cpu_seconds),
            megabytes(row.bytes_per_second) + "/s",
            format!("{:.2}", row.ratio),
            megabytes(row.peak_bytes_of_eighth as f64),
            megabytes(row.peak_bytes as f64),
            format!("≥ {}/s", megabytes(row.target_bytes_per_second)),
            super::verdict(row.met).to_owned(),
        ]);
    }
    for column in 1..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "'finerail dump' of traffic with Lustre servers, from a pipe\n\n{}\n",
        table.trim_fmt()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_is_later_and_has_connections_of_its_own() {
        let mut packet = vec![0; 54];
        packet[34..36].copy_from_slice(&1023_u16.to_be_bytes());
        packet[36..38].copy_from_slice(&LNET.to_be_bytes());
        let traffic = Traffic {
            header: Vec::new(),
            packets: vec![Packet {
                time: 5,
                bytes: packet.clone(),
            }],
            period: 2_000_000,
        };
        let mut out = Vec::new();
        traffic.repeat(0, &mut out);
        assert_eq!(out[PACKET_HEADER..], packet);
        let mut later = Vec::new();
        traffic.repeat(1, &mut later);
        assert_eq!(later[0..8], {
            let seconds = 1_700_000_002_u32.to_le_bytes();
            [seconds, 5_u32.to_le_bytes()].concat()
        });
        assert_eq!(
            later[PACKET_HEADER + 34..][..4],
            [[0x04, 0x07], [0x03, 0xDC]].concat()
        );
    }

    #[test]
    fn a_file_that_is_no_capture_or_ends_in_a_packet_is_refused() {
        let mut traffic = Traffic {
            header: Vec::new(),
            packets: Vec::new(),
            period: 0,
        };
        assert!(traffic.append(b"no capture").is_err());
        let mut file = 0xA1B2_C3D4_u32.to_le_bytes().to_vec();
        file.resize(20, 0);
        file.extend(1_u32.to_le_bytes());
        assert!(traffic.append(&file).is_ok());
        file.extend([0; 8]);
        file.extend([9, 0, 0, 0, 9, 0, 0, 0, 1]);
        let refusal = traffic.append(&file).unwrap_err();
        assert_eq!(refusal.to_string(), "the last packet is cut short");
    }
}
