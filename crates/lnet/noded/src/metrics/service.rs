//! The metrics of a service on a node, which the node itself does not know.

use std::fmt::Write as _;

/// A number of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceMetric {
    /// The name, without the prefix `finerail_` and without the ending of a counter.
    pub name: &'static str,
    /// The meaning, as a sentence.
    pub help: &'static str,
    /// The value now.
    pub value: u64,
    /// Whether the number only grows.
    pub is_counter: bool,
}

/// Reads what a service counts.
pub type Service = dyn Fn() -> Vec<ServiceMetric> + Send + Sync;

/// The end of an exposition.
const END: &str = "# EOF\n";

/// Adds the metrics of a service to the exposition of its node.
pub(super) fn add(exposition: &mut String, metrics: &[ServiceMetric]) {
    if exposition.ends_with(END) {
        exposition.truncate(exposition.len() - END.len());
    }
    for metric in metrics {
        let name = format!("{}_{}", super::PREFIX, metric.name);
        let (kind, ending) = match metric.is_counter {
            true => ("counter", "_total"),
            false => ("gauge", ""),
        };
        // Writing to a String does not fail.
        let _written = writeln!(
            exposition,
            "# HELP {name} {}\n# TYPE {name} {kind}\n{name}{ending} {}",
            metric.help, metric.value
        );
    }
    exposition.push_str(END);
}

/// Adds lines of OpenMetrics to the exposition of a node.
pub(super) fn add_lines(exposition: &mut String, lines: &str) {
    if exposition.ends_with(END) {
        exposition.truncate(exposition.len() - END.len());
    }
    exposition.push_str(lines);
    exposition.push_str(END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_service_come_before_the_end() {
        let mut exposition = "a 1\n# EOF\n".to_owned();
        let metric = |name, is_counter| ServiceMetric {
            name,
            help: "What it is.",
            value: 7,
            is_counter,
        };
        add(&mut exposition, &[metric("x", true), metric("y", false)]);
        let expected = "a 1\n# HELP finerail_x What it is.\n# TYPE finerail_x counter\nfinerail_x_total 7\n\
                        # HELP finerail_y What it is.\n# TYPE finerail_y gauge\nfinerail_y 7\n# EOF\n";
        assert_eq!(exposition, expected);
    }
}
