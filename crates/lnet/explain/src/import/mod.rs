//! Imports a node from what `lnetctl` prints of it: an export, or the outputs of its `show` commands; or from options of
//! the kernel module.
//!
//! Several outputs are combined: another output may hold a value that the first output does not hold. A value that
//! no output holds is assumed, and the node keeps a list of these assumptions ([`Assumed`]). A part that no node
//! can have (the same NID twice, a route to a local net) is left out and listed, too. Kernels print such parts, and
//! the rest of the output still answers questions.

mod build;
mod merge;

use lnet_config::machine::Machine;
use lnet_config::modprobe::{ConvertDefaults, Dialect, ModuleOptions, is_options};
use lnet_config::{ConfigError, Document};
use lnet_core::UsedPaths;
use lnet_policy::Profile;
use thiserror::Error;

use crate::node::Node;

/// A text and its origin.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The name of the text in errors and warnings.
    pub name: &'a str,
    /// The text that `lnetctl` printed, or a file of `modprobe.d`.
    pub text: &'a str,
}

/// Settings that the outputs do not hold and that the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The profile of selection; `None` for the profile that the outputs name, or `Design` if they name none.
    pub profile: Option<Profile>,
    /// What resends remember of earlier tries.
    pub used_paths: UsedPaths,
    /// The machine's interfaces, if they are known.
    pub machine: Option<Machine>,
}

/// The error for a text that is not an output of `lnetctl`.
#[derive(Clone, Debug, Error)]
#[error("{}", .error.render(.name))]
pub struct ImportError {
    /// The name of the text.
    pub name: String,
    /// The error, with its place.
    pub error: Box<ConfigError>,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The imported node.
    pub node: Node,
    /// The parts of the texts that were not understood and were ignored, each with its place.
    pub warnings: Vec<String>,
}

/// Reads the outputs of one node.
///
/// ```
/// use lnet_explain::{Question, Settings, Source, explain, import};
///
/// let text = "net: [{net type: tcp, local NI(s): [{nid: 10.0.0.1@tcp, interfaces: {0: eth0}}]}]";
/// let source = Source { name: "net.yaml", text };
/// let node = import(&[source], &Settings::default())?.node;
/// let question = Question { to: "10.0.0.9@tcp".parse()?, from: None, size: 0, sends: 1 };
/// let path = explain(&node, &question)?.answer.path.unwrap();
/// assert_eq!(path.to_string(), "10.0.0.1@tcp (eth0) → 10.0.0.9@tcp");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns the first text that cannot be read, with the reason.
pub fn import(sources: &[Source<'_>], settings: &Settings) -> Result<Imported, ImportError> {
    let mut whole = Document::default();
    let mut warnings = Vec::new();
    let files = sources.iter().filter(|source| is_options(source.text));
    let files: Vec<&Source<'_>> = files.collect();
    let mut options = ModuleOptions::default();
    for source in &files {
        let added = options.add_file(source.text, Dialect::Kernel);
        added.map_err(|error| failed(source, error))?;
    }
    let mut of_options = (!files.is_empty()).then(|| of_options(&options, settings));
    for source in sources {
        if is_options(source.text) {
            // The files of modprobe.d are one set of options, which stands at the place of the first.
            let Some((document, left_out)) = of_options.take() else {
                continue;
            };
            let names: Vec<&str> = files.iter().map(|file| file.name).collect();
            let names = names.join(", ");
            warnings.extend(left_out.iter().map(|what| format!("{names}: {what}")));
            merge::into(&mut whole, document);
            continue;
        }
        let reading = lnet_config::read(source.text).map_err(|error| failed(source, error))?;
        let named = reading
            .warnings
            .iter()
            .map(|warning| warning.render(source.name));
        warnings.extend(named);
        merge::into(&mut whole, reading.document);
    }
    Ok(Imported {
        node: build::node(&whole, settings),
        warnings,
    })
}

fn failed(source: &Source<'_>, error: ConfigError) -> ImportError {
    ImportError {
        name: source.name.to_owned(),
        error: Box::new(error),
    }
}

/// Converts options of the module. Also returns what a document cannot say of them, or why they make no document.
fn of_options(options: &ModuleOptions, settings: &Settings) -> (Document, Vec<String>) {
    let first = settings.machine.as_ref().and_then(Machine::first);
    let defaults = ConvertDefaults {
        hop: None,
        interface: Some(first.unwrap_or("eth0").to_owned()),
    };
    match options.to_config(&defaults) {
        Ok((mut config, left_out)) => {
            if let Some(machine) = &settings.machine {
                machine.resolve_as_module(&mut config);
            }
            // The advice is for who converts.
            let lost = left_out.into_iter().map(|one| one.text);
            (Document::from(&config), lost.collect())
        }
        // The networks are good without the routes.
        Err(error) if !options.routes.is_empty() => {
            let rest = ModuleOptions {
                routes: Vec::new(),
                ..options.clone()
            };
            let (document, mut lost) = of_options(&rest, settings);
            lost.insert(0, format!("{error}; the routes are left out"));
            (document, lost)
        }
        Err(error) => (Document::default(), vec![error.to_string()]),
    }
}

/// Returns the node that a document describes, built as [`import`] builds it.
#[must_use]
pub fn from_document(document: &Document, settings: &Settings) -> Node {
    build::node(document, settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(files: &[&str]) -> Imported {
        let interface = |name, address| {
            format!(
                r#"{{"ifname":"{name}","flags":["UP","LOWER_UP"],"addr_info":[{{"local":"{address}","prefixlen":24}}]}}"#
            )
        };
        let both = [
            interface("eth0", "10.77.0.1"),
            interface("eth1", "10.1.2.3"),
        ];
        let settings = Settings {
            machine: Some(Machine::parse(&format!("[{}]", both.join(","))).unwrap()),
            ..Settings::default()
        };
        let source = |text| Source {
            name: "lnet.conf",
            text,
        };
        let sources: Vec<Source<'_>> = files.iter().copied().map(source).collect();
        import(&sources, &settings).unwrap()
    }

    fn nids(of: &Imported) -> Vec<String> {
        let nis = of.node.state.nis.iter();
        nis.map(|ni| ni.nid.to_string()).collect()
    }

    // [CONF-55]
    #[test]
    fn the_module_has_the_interfaces_of_every_rule() {
        let rules = "options lnet ip2nets=\"tcp(eth0) 10.77.0.1; tcp(eth1) 10.1.2.3\"";
        assert_eq!(nids(&imported(&[rules])), ["10.77.0.1@tcp", "10.1.2.3@tcp"]);
    }

    #[test]
    fn files_of_options_are_one_set() {
        let files = [
            "options lnet networks=tcp(eth0)",
            "options ksocklnd credits=512",
        ];
        let of = imported(&files);
        assert_eq!(
            (nids(&of), of.warnings.len()),
            (vec!["10.77.0.1@tcp".to_owned()], 0)
        );
    }

    #[test]
    fn routes_that_cannot_be_read_leave_the_networks() {
        let of = imported(&["options lnet networks=tcp(eth0) routes=\"lo 1 10.0.0.2@tcp\""]);
        assert_eq!(nids(&of), ["10.77.0.1@tcp"]);
        assert!(
            of.warnings[0].ends_with("the routes are left out"),
            "{:?}",
            of.warnings
        );
    }
}
