//! `finerail convert`: converts options of the lnet module to the YAML that lnetctl imports, and back.
//!
//! The exit codes are those of the converter of kernel distributions: 0 success, 1 nothing to convert or wrong
//! usage, 2 the input could not be parsed, or not be expressed in the other form.

mod own;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use lnet_config::ConfigError;
use lnet_config::modprobe::{ConvertDefaults, Dialect, LeftOut, ModuleOptions, OptionKind, Proof};

use crate::common::{NEGATIVE, Negative, complaint, print_bytes, read_standard_input, read_text};
use own::Own;

/// Arguments of `finerail convert`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  finerail convert /etc/modprobe.d/lnet.conf > /etc/lnet.conf
  finerail convert 'tcp0(eth0) 10.0.0.*; o2ib0(ib0) 192.168.[1-2].*'
  finerail convert --to modprobe /etc/lnet.conf
  finerail convert --for mgs1@tcp > /etc/lnet.conf          what this machine needs to reach that node
  finerail convert --for mgs1@tcp --to routes | sh -e       if several interfaces lead to it")]
pub(crate) struct ConvertArgs {
    /// The input: a file of modprobe.d, `networks=…`, `routes=…`, the value of ip2nets, or
    /// YAML with `--to modprobe`. With `-` or without an argument: standard input
    #[arg(value_name = "FILE|TEXT")]
    input: Option<String>,
    /// The output format
    #[arg(long, value_enum, default_value_t = Form::Yaml, value_name = "FORM")]
    to: Form,
    /// Write the configuration that this machine needs to reach this node, from its interfaces and routes; a host name
    /// can stand for the address, on tcp and on o2ib: the first of its addresses that this machine reaches counts
    #[arg(long = "for", value_name = "NID", conflicts_with_all = ["input", "modprobe", "networks", "ip2nets", "routes", "default_hop", "interface"])]
    own: Option<String>,
    /// A file of modprobe.d; repeatable
    #[arg(short, long, value_name = "FILE")]
    modprobe: Vec<PathBuf>,
    /// A file with the value of `networks`; repeatable
    #[arg(short, long, value_name = "FILE")]
    networks: Vec<PathBuf>,
    /// A file with the value of `ip2nets`; repeatable
    #[arg(short, long, value_name = "FILE")]
    ip2nets: Vec<PathBuf>,
    /// A file with the value of `routes`; repeatable
    #[arg(short, long, value_name = "FILE")]
    routes: Vec<PathBuf>,
    /// Hops of routes without a hop count; 1 if no number is given; without this option they stay undefined
    #[arg(
        long,
        value_name = "HOPS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u8).range(1..)
    )]
    default_hop: Option<u8>,
    /// The interface of networks without one; the kernel module would use the first that it finds
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Print what the other form can express, although it cannot express all that has an effect; without this option,
    /// such an input is rejected
    #[arg(long, conflicts_with = "own")]
    partial: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// YAML for `lnetctl import` and for a node of Finerail
    Yaml,
    /// Lines for a file of modprobe.d
    Modprobe,
    /// With --for: commands that let each of several interfaces send for its own address
    Routes,
}

/// Prints what is wrong with the arguments. The exit code is 1, as for the converter of kernel distributions,
/// in which 2 means input that cannot be parsed. Other commands exit with 2.
pub(crate) fn usage(error: &clap::Error) -> u8 {
    // The output is closed: there is no other place to report the error.
    let _unprinted = error.print();
    if error.exit_code() == 0 { 0 } else { NEGATIVE }
}

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    if let Some(target) = &args.own {
        return for_node(target, args.to);
    }
    let converted = match args.to {
        Form::Yaml => to_yaml(args)?,
        Form::Modprobe => to_modprobe(args)?,
        Form::Routes => bail!(Negative("--to routes goes with --for NID".to_owned())),
    };
    for note in &converted.left_out {
        let what = if note.has_effect {
            "not expressed"
        } else {
            "left out"
        };
        complaint(&format!("{what}: {note}"));
    }
    let is_whole = !converted.left_out.iter().any(|note| note.has_effect);
    if !is_whole && !args.partial {
        bail!(
            "nothing is printed, because a node would not do the same by the result: resolve what is not expressed, or \
             take the rest with --partial"
        );
    }
    for warning in converted.warnings {
        complaint(&format!("warning: {warning}"));
    }
    match converted.proof {
        Some((proof, true)) if is_whole => complaint(&format!(
            "checked: the YAML, read back, means the same as the options, in the same order: {proof}"
        )),
        Some((proof, _)) => {
            let but = if is_whole {
                "see the warnings"
            } else {
                "it lacks what is not expressed"
            };
            complaint(&format!(
                "checked: the YAML, read back, has these entries of the options, in the same order: {proof}; a node does \
                 not do the same by it everywhere: {but}"
            ));
        }
        None => {}
    }
    print_bytes(converted.text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what this machine needs to reach a node.
fn for_node(target: &str, form: Form) -> anyhow::Result<ExitCode> {
    let own = Own::find(target)?;
    let text = match form {
        Form::Yaml => own.yaml(),
        Form::Modprobe => {
            let config = lnet_config::parse(&own.yaml());
            let config = config.map_err(|error| anyhow!("{}", error.render("result")))?;
            let (options, left_out) = ModuleOptions::from_config(&config);
            if let Some(lost) = left_out.iter().find(|one| one.has_effect) {
                bail!("options of the module cannot express it: {lost}");
            }
            options.to_modprobe()?
        }
        Form::Routes => own.routes()?,
    };
    for note in own.notes().iter().filter(|_| form != Form::Routes) {
        complaint(note);
    }
    print_bytes(text.as_bytes(), &mut io::stdout())?;
    Ok(ExitCode::SUCCESS)
}

/// The result of a conversion, with the messages for the user.
struct Converted {
    text: String,
    left_out: Vec<LeftOut>,
    warnings: Vec<String>,
    /// The proof that the YAML, parsed again, has the same entries as the options, and whether entries that are the same
    /// mean the same. `None` for a conversion to modprobe.
    proof: Option<(Proof, bool)>,
}

fn to_yaml(args: &ConvertArgs) -> anyhow::Result<Converted> {
    let mut options = ModuleOptions::default();
    let kinds = [
        (OptionKind::Networks, &args.networks),
        (OptionKind::Ip2Nets, &args.ip2nets),
        (OptionKind::Routes, &args.routes),
    ];
    for (kind, files) in kinds {
        for file in files {
            let source = Source::of_file(file)?;
            source.read(|text| options.add_value(kind, text, Dialect::Converter))?;
        }
    }
    for file in &args.modprobe {
        let source = Source::of_file(file)?;
        source.read(|text| options.add_file(text, Dialect::Converter))?;
    }
    if args.input.is_some() || !args.has_files() {
        let source = Source::of_input(args.input.as_deref())?;
        source.read(|text| options.add_text(text, Dialect::Converter))?;
    }
    if options.is_empty() {
        bail!(Negative(
            "there is no networks, ip2nets or routes data".to_owned()
        ));
    }
    let defaults = ConvertDefaults {
        hop: args.default_hop,
        interface: args.interface.clone(),
    };
    let (config, left_out) = options.to_config(&defaults)?;
    let yaml = config.to_yaml();
    // Only the parser of an import detects all contradictions between options.
    let read = lnet_config::parse(&yaml);
    let read = read.map_err(|error| anyhow!("{}", error.render("result")))?;
    Ok(Converted {
        proof: Some((options.prove(&read, &defaults)?, options.is_same_as_yaml())),
        warnings: options.warnings(),
        left_out,
        text: yaml,
    })
}

fn to_modprobe(args: &ConvertArgs) -> anyhow::Result<Converted> {
    if args.has_files() || args.default_hop.is_some() || args.interface.is_some() {
        bail!(Negative(
            "--to modprobe takes YAML, not the files and defaults of module options".to_owned()
        ));
    }
    let source = Source::of_input(args.input.as_deref())?;
    let config = source.read(lnet_config::parse)?;
    let (options, left_out) = ModuleOptions::from_config(&config);
    if options.is_empty() {
        bail!(Negative(
            "the YAML contains nothing that module options can express".to_owned()
        ));
    }
    Ok(Converted {
        text: options.to_modprobe()?,
        left_out,
        warnings: options.warnings(),
        proof: None,
    })
}

impl ConvertArgs {
    fn has_files(&self) -> bool {
        let files = [&self.modprobe, &self.networks, &self.ip2nets, &self.routes];
        files.iter().any(|files| !files.is_empty())
    }
}

/// A text and the name that error messages use for it.
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn of_file(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = read_text(path).with_context(|| format!("cannot read {name}"))?;
        Ok(Self { name, text })
    }

    /// Decides whether the argument is a text or a file name. Text has blanks or a `=`; names of configuration
    /// files have neither.
    fn of_input(input: Option<&str>) -> anyhow::Result<Self> {
        let Some(input) = input.filter(|input| *input != "-") else {
            let name = "standard input".to_owned();
            let text = read_standard_input().context("cannot read standard input")?;
            return Ok(Self { name, text });
        };
        let is_text = input.is_empty() || input.contains(|c: char| c.is_whitespace() || c == '=');
        if is_text && !Path::new(input).is_file() {
            return Ok(Self {
                name: "argument".to_owned(),
                text: input.to_owned(),
            });
        }
        Self::of_file(Path::new(input))
    }

    fn read<T>(&self, read: impl FnOnce(&str) -> Result<T, ConfigError>) -> anyhow::Result<T> {
        read(&self.text).map_err(|error| anyhow!("{}", error.render(&self.name)))
    }
}
