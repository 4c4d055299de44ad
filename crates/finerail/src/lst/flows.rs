//! `finerail lst run FILE.yaml`: runs the flows of a file in this process.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{HumanDuration, ProgressBar};
use lnet_selftest::TestNode;
use lnet_selftest::console::{Answer, Console, Kind};
use lnet_selftest::driver::LoadId;
use lnet_selftest::flow::{self, Flow, FlowReport, FlowSpec};
use lnet_types::ProcessId;
use serde::Serialize;

use crate::common::{ConfigArgs, NEGATIVE, Negative, TransportArgs, complaint, read_text};
use crate::service::{GRACE, raise_descriptor_limit, raise_on_signals};

/// Arguments of `finerail lst run`.
#[derive(clap::Args)]
#[command(after_help = "\
Example: the load of a file system on two servers while a job writes a checkpoint

  cat > flows.yaml <<END
  seconds: 30
  flows:
    - name: checkpoint
      to: 192.168.10.[8-9]@tcp       # or a list
      mix: { read: 10, write: 85, ping: 5 }
      sizes: { 1M: 90, 64K: 10 }
      check: simple                  # none, simple, full, discard
      concurrency: 8                 # RPCs in flight at each server
      rate: 2000                     # RPCs a second; without it, no limit
      on_error: count                # or stop
    - name: restart
      to: 192.168.10.8@tcp
      mix: { read: 1 }
      sizes: 1M
      count: 10000                   # or seconds, for this flow
      timeout: 10                    # timeout of an RPC in seconds
  END
  finerail lst run flows.yaml

The servers are test nodes: kernel nodes with the module lnet_selftest, or finerail lst serve. The \
exit code is 1 if an RPC failed.
")]
pub(super) struct RunArgs {
    /// A batch of the session, or a file of flows that ends in .yaml or .yml
    #[arg(value_name = "BATCH|FILE", default_value = "batch")]
    pub(super) what: String,
    /// A batch: timeout of each client's answer, in seconds
    #[arg(short, long, value_name = "SECONDS", default_value_t = super::RUN_TIMEOUT, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(super) timeout: u32,
    /// Flows: print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Flows: take servers out of sessions of other consoles
    #[arg(long)]
    force: bool,
    /// Flows: the seed of random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    transport: TransportArgs,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Figures {
    interrupted: bool,
    flows: Vec<FlowReport>,
}

/// The interval of the shown rates.
const LOOK: Duration = Duration::from_millis(500);
/// The interval of keepalives to nodes that would otherwise consider this console dead.
// [LST-17]
const KEEP_ALIVE: Duration = Duration::from_secs(8);

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let path = Path::new(&args.what);
    let text = read_text(path).with_context(|| format!("cannot read {}", args.what))?;
    let specs = flow::parse(&text).with_context(|| args.what.clone())?;
    if let Some(endless) = specs
        .iter()
        .find(|flow| flow.count.is_none() && flow.duration.is_none())
    {
        bail!(
            "{}: flow {} has neither seconds nor count",
            args.what,
            endless.name
        );
    }
    let config = args.config.read()?;
    raise_descriptor_limit();
    let interrupted = raise_on_signals().context("cannot register signal handlers")?;
    let node = lnet_noded::start(&config, TestNode::driving(args.transport.options()))
        .with_context(|| format!("cannot start the node of {}", args.config.config.display()))?
        .into_node();
    let test_node = TestNode::start(node.clone()).context("cannot start the test node")?;
    let mut console = Console::new(test_node);
    prepare(&mut console, &specs, args.force)?;
    let loads: Vec<LoadId> = (args.seed..)
        .zip(&specs)
        .map(|(seed, spec)| {
            let flow = Flow::new(spec.clone(), seed);
            console.caller().load(flow, spec.timeout)
        })
        .collect();
    let flows = watch(&mut console, &loads, &|| {
        interrupted.load(Ordering::Acquire)
    });
    // Servers that this call does not reach end the session by themselves.
    let _silent = console.end_session();
    drop(console);
    node.shutdown(GRACE);
    let failed = flows.iter().any(|flow| flow.errors() > 0);
    let interrupted = interrupted.load(Ordering::Acquire);
    let text = if args.json {
        serde_json::to_string_pretty(&Figures { interrupted, flows })?
    } else {
        table(&flows).to_string()
    };
    writeln!(io::stdout(), "{text}").context("cannot write to standard output")?;
    Ok(if failed || interrupted {
        ExitCode::from(NEGATIVE)
    } else {
        ExitCode::SUCCESS
    })
}

/// Makes a session at every server.
fn prepare(console: &mut Console<TestNode>, specs: &[FlowSpec], force: bool) -> anyhow::Result<()> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let stamp = i64::try_from(since_1970.as_millis())?;
    console.new_session("finerail-flows", 0, force, stamp)?;
    for (number, spec) in specs.iter().enumerate() {
        let group = format!("flow{number}");
        refused(&console.add_group(&group, &spec.servers)?)?;
        let kind = match spec.mix {
            [0, 0, _] => Kind::Ping,
            _ => Kind::Bulk {
                is_write: spec.mix[0] == 0,
                len: spec.sizes.iter().map(|(size, _)| *size).max().unwrap_or(1),
                check: spec.check,
                offset: 0,
            },
        };
        refused(&console.add_servers("batch", &group, kind, spec.concurrency)?)?;
    }
    Ok(())
}

/// Reports an error for each server that does not take part in the session.
fn refused(failures: &[Answer<()>]) -> anyhow::Result<()> {
    for (nid, answer) in failures {
        if let Err(error) = answer {
            let hint = match error.errno() {
                16 => "; --force takes it from the other console",
                110 | 113 => "; is it a test node, and does 'finerail ping' reach it?",
                _ => "",
            };
            complaint(&format!("{}: {error}{hint}", ProcessId::lustre(*nid)));
        }
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Negative(format!("{} servers take no part", failures.len())).into())
    }
}

/// Waits until the flows have ended, and shows their rates on a terminal. A signal stops the flows; RPCs in
/// flight complete first.
fn watch(
    console: &mut Console<TestNode>,
    loads: &[LoadId],
    is_interrupted: &dyn Fn() -> bool,
) -> Vec<FlowReport> {
    let bar = io::stderr().is_terminal().then(ProgressBar::new_spinner);
    let begun = Instant::now();
    let mut spoken = Instant::now();
    let mut before = vec![0; loads.len()];
    let mut looked = Instant::now();
    while loads.iter().any(|&load| console.caller().is_running(load)) {
        thread::sleep(LOOK);
        if is_interrupted() {
            for &load in loads {
                console.caller().stop(load, false);
            }
        }
        if spoken.elapsed() >= KEEP_ALIVE {
            spoken = Instant::now();
            console.keep_alive();
        }
        let Some(bar) = &bar else { continue };
        let mut parts = vec![HumanDuration(begun.elapsed()).to_string()];
        let seconds = looked.elapsed().as_secs_f64();
        looked = Instant::now();
        for (&load, before) in loads.iter().zip(&mut before) {
            if console.caller().is_running(load)
                && let Some(report) = console.caller().report(load)
            {
                let bytes = report.read.bytes + report.write.bytes;
                let rate = bytes.saturating_sub(*before) as f64 / seconds / 1_048_576.0;
                *before = bytes;
                let errors = report.errors();
                parts.push(format!("{} {rate:.0} MiB/s, {errors} errors", report.name));
            }
        }
        bar.set_message(parts.join(" · "));
        bar.tick();
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let reports = loads.iter().map(|&load| console.caller().report(load));
    reports.flatten().collect()
}

fn table(flows: &[FlowReport]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "flow",
        "operation",
        "RPCs",
        "errors",
        "RPC/s",
        "MiB/s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "p99.9 ms",
        "max ms",
    ]);
    for flow in flows {
        let used = flow.operations();
        let used = used
            .iter()
            .filter(|(_, counts)| counts.done + counts.errors > 0);
        for (name, report) in used {
            let ms = |us: u64| format!("{:.2}", us as f64 / 1000.0);
            let latency = report.latency_us;
            let latency = latency.map(|latency| {
                [
                    latency.p50,
                    latency.p90,
                    latency.p99,
                    latency.p999,
                    latency.max,
                ]
                .map(ms)
            });
            let mut row = vec![
                flow.name.clone(),
                (*name).to_owned(),
                report.done.to_string(),
                report.errors.to_string(),
                format!("{:.0}", report.rpcs_per_second),
                format!("{:.1}", report.bytes_per_second / 1_048_576.0),
            ];
            row.extend(latency.unwrap_or_default());
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
