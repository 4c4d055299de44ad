//! `finerail dump`: prints the LNet traffic in a capture, message by message, or the RPCs of Lustre in it.

mod rpc;

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use lnet_capture::{CaptureError, LNET_PORT, Message, Summary, decode_capture, render};

use crate::common::{complaint, open as open_input};

/// What `finerail dump` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DumpArgs {
    /// A pcap or pcapng file, or - for standard input
    file: PathBuf,

    /// Print every field of every message, with its offset and its bytes
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,

    /// Print the RPCs of Lustre, one a line, and what is notable about them: who asks which target for what, for
    /// which job, with how many bytes, status and time. With -v also every field of each request and reply. With -v or
    /// --json also the records of configuration logs, and the table of where the targets are
    #[arg(long)]
    rpc: bool,

    /// Print a table of the RPCs with counts, bytes, errors and percentiles of their times, instead of a line for
    /// each
    #[arg(long, conflicts_with_all = ["verbose", "csv"])]
    rpc_summary: bool,

    /// The columns that make the rows of --rpc-summary. The target is the server where the capture does not show the
    /// target's connect
    #[arg(
        long,
        value_name = "COLUMN",
        value_delimiter = ',',
        default_values = ["client", "target", "operation", "job"],
        requires = "rpc_summary"
    )]
    by: Vec<rpc::Column>,

    /// Print the RPCs as CSV, with a line of names first
    #[arg(long, requires = "rpc", conflicts_with_all = ["json", "verbose"])]
    csv: bool,

    /// Exit with 1 if a byte of an accepted LNet connection could not be decoded
    #[arg(long)]
    strict: bool,

    /// A port on which LNet nodes listen (over RDMA, 987 counts too); connections to other ports are recognised if the
    /// capture contains their first bytes. Repeatable
    #[arg(long = "port", value_name = "PORT", default_values_t = [LNET_PORT])]
    ports: Vec<u16>,
}

const EXAMPLES: &str = "\
Examples:
  finerail dump lnet.pcap
  finerail dump --strict --json lnet.pcapng | jq 'select(.what == \"GET\")'
  tcpdump -w - port 988 | finerail dump -
  tcpdump -i eth0 -w - udp port 4791 | finerail dump -      LNet over RoCE
  finerail dump --rpc lnet.pcap                             who asks which target for what?
  finerail dump --rpc-summary --by job,target lnet.pcap     which job makes the load?
  finerail dump --rpc --csv lnet.pcap > rpcs.csv            pandas.read_csv(\"rpcs.csv\")";

/// Reads the capture and prints its contents. Messages and the summary go to standard output, errors in the
/// file to standard error.
///
/// Exit codes: 0 success; 1 with `--strict`, a byte could not be decoded; 2 the file could not be read, or not
/// to its end.
///
/// # Errors
///
/// The file cannot be opened or is not a capture, or the output cannot be written. A closed pipe is not an
/// error.
pub(crate) fn run(args: &DumpArgs) -> anyhow::Result<ExitCode> {
    let stdout = io::stdout().lock();
    // At a terminal every line is flushed at once, which matters most for a live capture.
    let mut out: Box<dyn Write> = if stdout.is_terminal() {
        Box::new(stdout)
    } else {
        Box::new(BufWriter::new(stdout))
    };
    match dump(args, out.as_mut()) {
        Err(error) if is_closed_pipe(&error) => Ok(ExitCode::SUCCESS),
        result => result,
    }
}

fn dump(args: &DumpArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let input = open(&args.file)?;
    if args.rpc || args.rpc_summary {
        return rpc::dump(args, input, out);
    }
    let mut lines = render::LinePrinter::default();
    let (summary, read) = decode_capture(input, &args.ports, |message| {
        print(args, &mut lines, &mut *out, message)
    });
    let damage = damage(args, read)?;
    print_summary(args, out, &summary)?;
    Ok(verdict(args, &summary, damage.as_ref()))
}

/// Returns what is wrong behind the readable part of the file.
///
/// # Errors
///
/// There is no readable part, or the output cannot be written.
fn damage(args: &DumpArgs, read: Result<(), CaptureError>) -> anyhow::Result<Option<CaptureError>> {
    match read {
        Ok(()) => Ok(None),
        Err(error @ CaptureError::Output(_)) => Err(error.into()),
        Err(error @ (CaptureError::NotACapture | CaptureError::Empty)) => {
            Err(error).with_context(|| args.file.display().to_string())
        }
        Err(error) => Ok(Some(error)),
    }
}

fn open(file: &Path) -> anyhow::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = open_input(file).with_context(|| file.display().to_string())?;
    Ok(Box::new(opened))
}

fn print(
    args: &DumpArgs,
    lines: &mut render::LinePrinter,
    out: &mut dyn Write,
    message: &Message<'_>,
) -> io::Result<()> {
    if args.json {
        return render::write_json(out, message);
    }
    lines.write(out, message)?;
    if args.verbose {
        render::write_fields(out, message)?;
    }
    Ok(())
}

fn print_summary(args: &DumpArgs, out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    if args.json {
        render::write_summary_json(out, summary)?;
    } else {
        writeln!(out)?;
        render::write_summary(out, summary)?;
    }
    out.flush()
}

fn verdict(args: &DumpArgs, summary: &Summary, damage: Option<&CaptureError>) -> ExitCode {
    if let Some(error) = damage {
        complain(args, error);
        return ExitCode::from(2);
    }
    if !args.strict || summary.is_complete() {
        return ExitCode::SUCCESS;
    }
    let bytes = summary.bytes.undecoded;
    complain(args, &format_args!("{bytes} bytes could not be decoded"));
    ExitCode::from(1)
}

/// Reports on standard error what is wrong with the file.
fn complain(args: &DumpArgs, what: &dyn fmt::Display) {
    complaint(&format!("{}: {what}", args.file.display()));
}

/// Returns whether the error is a closed pipe, as in `finerail dump … | head`. The reader has ended, so there
/// is nothing to report.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    })
}
