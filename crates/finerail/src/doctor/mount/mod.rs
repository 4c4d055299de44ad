//! `finerail doctor mount`: will this machine mount that file system? Asks the MGS and the targets as a client that only
//! looks.

mod conf;
mod endpoint;
mod gather;
mod records;
mod report;
mod source;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail, ensure};
use lnet_ptlrpc::mount::check;

use crate::common::{NEGATIVE, complaint, print_bytes};
use crate::ping::seconds;
use crate::service::raise_on_signals_and_hangup;
use endpoint::Endpoint;
use gather::{Gathered, Gathering};
use records::Records;
use report::Report;
use source::Source;

/// Arguments of `finerail doctor mount`.
#[derive(clap::Args)]
#[command(after_help = "\
The first lines are the verdict: what was seen, and the one thing to change. A table of all targets follows: how \
this machine reaches each NID, and whether it answers.

The MGS sees a client that connects, reads the configuration of the file system and where its targets are now, and \
disconnects. No lock is taken and nothing is written. With --targets the same client connects to each target, \
read-only and as a client that no recovery waits for, asks for its state and disconnects; a server where the target \
is not started logs one line.

After --timeout the check says what it did not ask. Interrupted, it still disconnects; a second signal ends it at \
once. What could not be ended is named, written down (--state), and ended by the next run.

Nodes that accept only privileged source ports (the default of kernel nodes) need --privileged, which needs \
CAP_NET_BIND_SERVICE or root. While a node of this machine runs, the check needs another address of the machine \
(--source-address): peers would take it for a restart of that node. Nodes on o2ib networks are dialled over RDMA.

Examples
  finerail doctor mount --privileged 10.1.0.2@tcp:/fs1
  finerail doctor mount 10.1.0.2@tcp,10.1.0.2@tcp1:10.1.0.3@tcp:/fs1   two nodes of the MGS
  finerail doctor mount --targets mgs1@tcp:mgs2@tcp:/fs1               ask each target, too
  finerail doctor mount --config lnet.conf 10.2.0.2@tcp1:/fs1          through routers
  finerail doctor mount --lnet-conf 10.1.0.2@tcp:/fs1 > lnet.conf      what this machine needs
  finerail doctor mount --save fs1.json 10.1.0.2@tcp:/fs1              for `finerail site targets`

Exit code: 0 nothing is wrong, 1 findings, or no whole lnet.conf, 2 wrong usage, or --save cannot be written.
")]
pub(crate) struct MountArgs {
    /// The MGS and the file system, as mount takes them: NIDs of one node behind commas, nodes behind colons
    #[arg(value_name = "MGSNID[:MGSNID]:/FSNAME")]
    source: String,
    /// TCP port of the nodes [default: accept_port of --config, or 988]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Connect from source ports below 1024, as kernel nodes do
    #[arg(long)]
    privileged: bool,
    /// Connect to each target too, and ask for its state
    #[arg(long)]
    targets: bool,
    /// Reach the nodes as the node of this document would, through its routers. While that node runs, the check refuses:
    /// its peers would see a restart
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Connect from this local address
    #[arg(long, short, value_name = "ADDRESS", conflicts_with = "config")]
    source_address: Option<std::net::IpAddr>,
    /// The most time for the whole check, in seconds, with the ends of its connections. The answer to a ping or a connect
    /// is awaited for a twelfth of it, another answer for a quarter; what does not come is asked once more. A target has ten seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 120.0, value_parser = seconds)]
    timeout: f64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print the lnet.conf that this machine needs for the file system, and the verdict on standard error
    #[arg(long, conflicts_with = "json")]
    lnet_conf: bool,
    /// Write the targets and their NIDs to this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Where connections are written down while they are open [default: finerail below $XDG_STATE_HOME or
    /// ~/.local/state]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

/// Runs `finerail doctor mount`.
pub(super) fn run(args: &MountArgs) -> anyhow::Result<ExitCode> {
    if args.timeout == 0.0 {
        bail!("--timeout 0 leaves no time to answer");
    }
    let source = Source::parse(&args.source)?;
    args.save.as_deref().map_or(Ok(()), expect_place)?;
    let records = Records::open(args.state.as_deref())?;
    let stop = raise_on_signals_and_hangup().context("cannot register signal handlers")?;
    let endpoint = Endpoint::start(args, &source)?;
    let gathering = Gathering::new(args, &endpoint, &records, &stop);
    gathering.end_earlier();
    let gathered = gathering.gather(&source);
    let verdict = check(&gathered.facts);
    let report = Report {
        verdict: &verdict,
        gathered: &gathered,
        has_knocked: args.targets,
        port: endpoint.port,
    };
    let mut is_whole = true;
    if args.lnet_conf {
        complaint(report.text().trim_end());
        is_whole = print_document(&gathered, &endpoint, &stop)?;
    } else {
        let text = match args.json {
            true => report.json()?,
            false => report.text(),
        };
        print_bytes(text.as_bytes(), &mut io::stdout())?;
    }
    endpoint.end();
    if let Some(path) = &args.save {
        save(path, &gathered, &source)?;
    }
    Ok(match verdict.is_healthy() && is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NEGATIVE),
    })
}

/// Refuses a path that no file can have, before anything is sent.
fn expect_place(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let place = folder.display();
    ensure!(
        folder.is_dir(),
        "--save cannot write a file in {place}, which is no folder"
    );
    let file = path.display();
    ensure!(
        !path.is_dir(),
        "--save cannot write the file {file}, which is a folder"
    );
    Ok(())
}

/// Writes the targets and their NIDs.
fn save(path: &Path, gathered: &Gathered, source: &Source) -> anyhow::Result<()> {
    if !gathered.facts.has_log {
        complaint("--save wrote nothing: the log was not read");
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&gathered.saved(source))? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints the lnet.conf, or says why it cannot be known. Returns whether it was printed.
fn print_document(
    gathered: &Gathered,
    endpoint: &Endpoint,
    stop: &AtomicBool,
) -> anyhow::Result<bool> {
    if !gathered.facts.has_log {
        complaint("--lnet-conf printed nothing: the log was not read");
        return Ok(false);
    }
    match conf::document(&gathered.facts, endpoint, stop) {
        Ok(text) => {
            print_bytes(text.as_bytes(), &mut io::stdout())?;
            Ok(true)
        }
        Err(error) => {
            complaint(&format!("--lnet-conf printed nothing: {error:#}"));
            Ok(false)
        }
    }
}
