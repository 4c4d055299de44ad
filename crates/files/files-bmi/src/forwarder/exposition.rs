//! The counters and gauges of a forwarder in the format of Prometheus.

use std::fmt::Write;

use super::{Forwarder, Standing};

impl Forwarder {
    /// Returns every counter and gauge as text of OpenMetrics 1.0. Names begin with `finerail_forward_`.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        for (name, help, value) in self.counters().snapshot().list() {
            match name.ends_with("_high_bytes") {
                true => add(&mut text, name, "gauge", "", help, value),
                false => add(&mut text, name, "counter", "_total", help, value),
            }
        }
        for (name, help, value) in self.standing().list() {
            add(&mut text, name, "gauge", "", help, value);
        }
        text.push_str("# EOF\n");
        text
    }
}

impl Standing {
    /// Returns the name, the meaning and the value of each gauge.
    #[must_use]
    pub fn list(&self) -> [(&'static str, &'static str, u64); 7] {
        [
            (
                "exchanges_under_way",
                "Exchanges in flight.",
                self.exchanges as u64,
            ),
            (
                "queued",
                "Operations that wait for a worker.",
                self.queued as u64,
            ),
            (
                "waiting_for_memory",
                "Exchanges that wait for memory.",
                self.waiting_for_memory as u64,
            ),
            ("memory_bytes", "Bytes of buffers in use.", self.memory),
            (
                "memory_limit_bytes",
                "Limit of bytes of buffers in use.",
                self.memory_limit,
            ),
            (
                "clients",
                "Clients whose state is kept.",
                self.clients as u64,
            ),
            ("peers", "Addresses of clients.", self.peers as u64),
        ]
    }
}

fn add(text: &mut String, name: &str, kind: &str, suffix: &str, help: &str, value: u64) {
    // Writing to a String does not fail.
    let _infallible = writeln!(
        text,
        "# HELP finerail_forward_{name} {help}\n# TYPE finerail_forward_{name} {kind}\n\
         finerail_forward_{name}{suffix} {value}"
    );
}
