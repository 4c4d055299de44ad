//! Runs other programs in the same rounds and on the same CPUs: UCX, libfabric and iperf3.
//!
//! `--peers` runs the programs that are installed. Each figure takes two new processes: a server on the targets'
//! CPU and a client on the initiator's CPU. The figure is the program's own report, so its start is not included.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use sys::ReservedPort;

use super::placement::Placement;
use super::report::Summary;

/// One configuration of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Program {
    /// `ucx_perftest` over TCP on loopback.
    UcxTcp,
    /// `ucx_perftest` over shared memory.
    UcxMemory,
    /// `fi_pingpong` with libfabric's tcp provider.
    Libfabric,
    /// `iperf3`.
    Iperf,
}

/// The test that a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// Messages of so many bytes, one after another, in one direction.
    Stream(usize),
    /// Messages of so many bytes that the client fetches.
    Fetch(usize),
    /// A message of so many bytes in each direction.
    RoundTrip(usize),
}

/// One test of one program, beside a row of our own.
pub(super) struct Rival {
    /// The row's name.
    what: String,
    /// The unit of its figures.
    unit: &'static str,
    program: Program,
    test: Test,
    count: u64,
    figures: Vec<f64>,
}

/// The results of a rival and of Finerail in the same rounds.
#[derive(Serialize)]
pub(super) struct RivalReport {
    what: String,
    unit: &'static str,
    program: Program,
    figure: Summary,
    finerail: Summary,
    ratio: Summary,
    rounds: Vec<f64>,
}

/// The number of messages in the first trial.
const FIRST: u64 = 300;
/// The time after which a program that has not ended is killed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time for which a client is started again if it fails, because its server may not listen yet.
const STARTING: Duration = Duration::from_secs(5);
/// The time between two checks of a process.
const LOOK: Duration = Duration::from_millis(5);
/// The size of iperf3's blocks, in bytes.
const IPERF_BLOCK: usize = 1 << 20;

impl Program {
    const fn command(self) -> &'static str {
        match self {
            Self::UcxTcp | Self::UcxMemory => "ucx_perftest",
            Self::Libfabric => "fi_pingpong",
            Self::Iperf => "iperf3",
        }
    }

    /// Returns the name for the table.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::UcxTcp => "UCX, tcp",
            Self::UcxMemory => "UCX, shared memory",
            Self::Libfabric => "libfabric, tcp",
            Self::Iperf => "iperf3",
        }
    }

    /// Returns true if the program can run the test. iperf3 has no messages, so its streams count as large
    /// messages.
    const fn can(self, test: Test) -> bool {
        match (self, test) {
            (Self::UcxTcp | Self::UcxMemory, _) | (Self::Libfabric, Test::RoundTrip(_)) => true,
            (Self::Iperf, Test::Stream(bytes)) => bytes == IPERF_BLOCK,
            _ => false,
        }
    }

    fn is_installed(self) -> bool {
        let mut command = Command::new(self.command());
        command.arg("-h").stdin(Stdio::null());
        match command.output() {
            Ok(_) => true,
            Err(error) => error.kind() != ErrorKind::NotFound,
        }
    }

    /// Returns the command lines of the server and of the client.
    fn commands(self, test: Test, count: u64, port: u16) -> (Command, Command) {
        let (mut server, mut client) = (Command::new(self.command()), Command::new(self.command()));
        let (port, count_text) = (port.to_string(), count.to_string());
        match self {
            Self::UcxTcp | Self::UcxMemory => {
                for command in [&mut server, &mut client] {
                    command.envs(self.ucx()).args(["-p", &port]);
                }
                let (name, bytes) = ucx_test(test);
                let size = bytes.to_string();
                client.args(["127.0.0.1", "-f", "-t", name, "-s", &size]);
                client.args(["-n", &count_text, "-w", "100"]);
            }
            Self::Libfabric => {
                let size = test.bytes().to_string();
                for command in [&mut server, &mut client] {
                    command.args(["-p", "tcp", "-e", "msg", "-I", &count_text, "-S", &size]);
                }
                server.args(["-B", &port]);
                client.args(["-P", &port, "127.0.0.1"]);
            }
            Self::Iperf => {
                server.args(["-s", "-1", "-B", "127.0.0.1", "-p", &port]);
                let bytes = (count * test.bytes() as u64).to_string();
                let block = test.bytes().to_string();
                client.args(["-c", "127.0.0.1", "-p", &port, "-J"]);
                client.args(["-n", &bytes, "-l", &block]);
            }
        }
        (server, client)
    }

    fn ucx(self) -> [(&'static str, &'static str); 3] {
        let (transports, devices) = match self {
            Self::UcxMemory => ("posix,sysv,self", "all"),
            _ => ("tcp,self", "lo"),
        };
        [
            ("UCX_TLS", transports),
            ("UCX_NET_DEVICES", devices),
            ("UCX_LOG_LEVEL", "error"),
        ]
    }

    /// Returns the seconds of one message or exchange, from the client's output.
    fn seconds(self, test: Test, output: &str) -> Option<f64> {
        self.printed(test, output)
            .filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }

    fn printed(self, test: Test, output: &str) -> Option<f64> {
        let columns = |line: &str| -> Vec<f64> {
            line.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "sizes stay far below 2^52")]
        let bytes = test.bytes() as f64;
        match self {
            // The columns: iterations; microseconds: median, average, overall; MiB a second: average, overall; …
            Self::UcxTcp | Self::UcxMemory => {
                let figures = columns(output.lines().last()?);
                match test {
                    Test::RoundTrip(_) => Some(figures.get(3)? * 2e-6),
                    _ => Some(bytes / (figures.get(5)? * f64::from(1 << 20))),
                }
            }
            // The last columns: seconds, megabytes a second, microseconds of one direction, …
            Self::Libfabric => {
                let figures = columns(output.lines().last()?);
                let [_, .., _, microseconds, _] = figures[..] else {
                    return None;
                };
                Some(microseconds * 2e-6)
            }
            Self::Iperf => {
                let report: serde_json::Value = serde_json::from_str(output).ok()?;
                let bits = report.pointer("/end/sum_received/bits_per_second")?;
                Some(bytes * 8.0 / bits.as_f64()?)
            }
        }
    }
}

const fn ucx_test(test: Test) -> (&'static str, usize) {
    match test {
        Test::Stream(bytes) => ("tag_bw", bytes),
        Test::Fetch(bytes) => ("ucp_get", bytes),
        Test::RoundTrip(bytes) => ("tag_lat", bytes),
    }
}

impl Test {
    const fn bytes(self) -> usize {
        match self {
            Self::Stream(bytes) | Self::Fetch(bytes) | Self::RoundTrip(bytes) => bytes,
        }
    }
}

/// Returns the programs that are installed.
///
/// # Errors
///
/// Returns an error if none of them is installed.
pub(super) fn installed(programs: &[Program]) -> anyhow::Result<Vec<Program>> {
    let found: Vec<Program> = programs
        .iter()
        .copied()
        .filter(|program| program.is_installed())
        .collect();
    if found.is_empty() {
        let commands: Vec<_> = programs.iter().map(|program| program.command()).collect();
        bail!(
            "--peers finds none of {} on the PATH; Debian's packages are ucx-utils, libfabric-bin and iperf3",
            commands.join(", ")
        );
    }
    Ok(found)
}

impl Rival {
    /// Returns the programs that can run a row's test, with counts for which they take about `wanted`.
    pub(super) fn all(
        programs: &[Program],
        (what, unit, test): (&str, &'static str, Test),
        place: &Placement,
        wanted: Duration,
    ) -> anyhow::Result<Vec<Self>> {
        let able = programs.iter().filter(|program| program.can(test));
        able.map(|&program| {
            let seconds = measure(program, test, FIRST, place)?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count of messages that fit into seconds"
            )]
            let count = (wanted.as_secs_f64() / seconds.max(1e-9)).clamp(100.0, 1e7) as u64;
            Ok(Self {
                what: what.to_owned(),
                unit,
                program,
                test,
                count,
                figures: Vec::new(),
            })
        })
        .collect()
    }

    /// Adds a round. `figure` converts the time of a message or an exchange into the row's unit.
    pub(super) fn round(
        &mut self,
        place: &Placement,
        figure: impl FnOnce(Duration) -> f64,
    ) -> anyhow::Result<()> {
        let seconds = measure(self.program, self.test, self.count, place)?;
        self.figures.push(figure(Duration::from_secs_f64(seconds)));
        Ok(())
    }

    /// Returns the report beside our own figures of the same rounds.
    pub(super) fn report(self, ours: &[f64]) -> RivalReport {
        let rounds = ours.iter().zip(&self.figures);
        let ratio = Summary::of(rounds.map(|(ours, figure)| ours / figure).collect());
        RivalReport {
            what: self.what,
            unit: self.unit,
            program: self.program,
            figure: Summary::of(self.figures.clone()),
            finerail: Summary::of(ours.to_vec()),
            ratio,
            rounds: self.figures,
        }
    }
}

/// Returns the table of the rivals.
pub(super) fn table(rivals: &[RivalReport]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "beside",
        "program",
        "its figure",
        "Finerail",
        "ratio",
        "min–max",
    ]);
    for rival in rivals {
        let show = |value: f64| match value {
            value if value >= 100.0 => format!("{value:.0} {}", rival.unit),
            value => format!("{value:.2} {}", rival.unit),
        };
        let Summary { median, min, max } = rival.ratio;
        table.add_row([
            rival.what.clone(),
            rival.program.name().to_owned(),
            show(rival.figure.median),
            show(rival.finerail.median),
            format!("{median:.2}"),
            format!("{min:.2}–{max:.2}"),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Runs a program once; returns the seconds of one message or exchange.
fn measure(program: Program, test: Test, count: u64, place: &Placement) -> anyhow::Result<f64> {
    let port = ReservedPort::on(Ipv4Addr::LOCALHOST).context("no TCP port is free")?;
    let number = port.number();
    drop(port);
    let (mut server, mut client) = program.commands(test, count, number);
    pin(place.target_cpu)?;
    server
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let server = server.spawn();
    pin(place.initiator_cpu)?;
    let server = Ended(server.with_context(|| format!("cannot start {}", program.command()))?);
    let deadline = Instant::now() + STARTING;
    let (output, text) = loop {
        let output = run(&mut client)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(seconds) = program.seconds(test, text.trim_end()) {
            return Ok(seconds);
        }
        // The server may not listen yet, which iperf3 reports with exit status 0.
        if Instant::now() > deadline {
            break (output, text);
        }
        std::thread::sleep(LOOK);
    };
    drop(server);
    bail!(
        "{} ended with {} and no figure: {}{}",
        program.name(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim(),
        text.trim()
    )
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    sys::pin_to_cpu(cpu).with_context(|| format!("cannot stay on CPU {cpu}"))
}

/// Runs a client to its end.
fn run(client: &mut Command) -> anyhow::Result<Output> {
    let deadline = Instant::now() + PATIENCE;
    client
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Ended(client.spawn().context("cannot start a program")?);
    // The output fits into the pipe, so the client does not block.
    while running.0.try_wait()?.is_none() {
        if Instant::now() > deadline {
            bail!("a program of --peers did not end in {PATIENCE:?}");
        }
        std::thread::sleep(LOOK);
    }
    running.output()
}

/// A process that is killed when this value is dropped.
struct Ended(Child);

impl Ended {
    /// Returns everything that the process printed. The process must have ended.
    fn output(&mut self) -> anyhow::Result<Output> {
        use std::io::Read;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let Some(pipe) = &mut self.0.stdout {
            pipe.read_to_end(&mut stdout)?;
        }
        if let Some(pipe) = &mut self.0.stderr {
            pipe.read_to_end(&mut stderr)?;
        }
        Ok(Output {
            status: self.0.wait()?,
            stdout,
            stderr,
        })
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // The process may have ended by itself. Then there is nothing to kill, and the wait removes its entry in
        // the system.
        let _already_gone = self.0.kill();
        let _already_reaped = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, wanted: f64) {
        let found = found.unwrap();
        assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}");
    }

    #[test]
    fn what_the_programs_print_is_read_as_seconds_of_a_message() {
        let ucx = "| Test |\n   2000  0.696  1634.140  1842.049  611.94  542.87  612  543";
        close(
            Program::UcxTcp.seconds(Test::Stream(1 << 20), ucx),
            1.0 / 542.87,
        );
        close(
            Program::UcxMemory.seconds(Test::RoundTrip(8), ucx),
            2.0 * 1842.049e-6,
        );
        let libfabric = "bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec\n\
                         64      1k      =1k      125k        3.81s      0.03    1902.88       0.00";
        close(
            Program::Libfabric.seconds(Test::RoundTrip(64), libfabric),
            2.0 * 1902.88e-6,
        );
        let iperf = r#"{"end": {"sum_received": {"bits_per_second": 8e9}}}"#;
        close(
            Program::Iperf.seconds(Test::Stream(1 << 20), iperf),
            f64::from(1 << 20) / 1e9,
        );
    }

    #[test]
    fn output_without_a_figure_is_no_figure() {
        for program in [Program::UcxTcp, Program::Libfabric, Program::Iperf] {
            for output in ["", "connection refused", "1 2"] {
                assert_eq!(program.seconds(Test::RoundTrip(8), output), None);
            }
        }
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let rival = Rival {
            what: "PUT".into(),
            unit: "GB/s",
            program: Program::Iperf,
            test: Test::Stream(IPERF_BLOCK),
            count: 1,
            figures: vec![4.0, 2.0, 1.0],
        };
        let report = rival.report(&[2.0, 2.0, 2.0]);
        assert!((report.ratio.median - 1.0).abs() < 1e-9);
        assert!((report.ratio.max - 2.0).abs() < 1e-9);
    }
}
