//! The consoles of a node of this process: commands of `lst` are parsed and carried out here.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use lnet_dlc::protocol::Said;
use lnet_noded::{ManagedNode, TestConsole};
use lnet_selftest::{ConsoleError, Consoles, TestNode};

use super::{Words, commands};
use crate::common::{BAD_INPUT, NEGATIVE};

/// A test node, and the consoles on it.
pub(crate) struct Host(Consoles);

impl Host {
    /// Starts a test node on a node, and lets commands of `lst` reach consoles on it.
    pub(crate) fn start(managed: &ManagedNode) -> anyhow::Result<Arc<Self>> {
        let test_node = TestNode::start(managed.node().clone()).context("cannot serve selftest")?;
        let consoles = Consoles::start(test_node).context("cannot serve selftest")?;
        let host = Arc::new(Self(consoles));
        let tests: Arc<dyn TestConsole> = Arc::clone(&host) as _;
        managed.set_tests(&tests);
        Ok(host)
    }

    /// Returns the consoles.
    pub(crate) const fn consoles(&self) -> &Consoles {
        &self.0
    }
}

impl TestConsole for Host {
    fn carry_out(
        &self,
        key: &str,
        words: &[String],
        say: &mut dyn FnMut(Said) -> io::Result<()>,
    ) -> io::Result<u8> {
        let mut out = Output(say);
        let command = match Words::try_parse_from(words) {
            Ok(words) => words.command,
            Err(error) => {
                out.err(error.to_string().trim_end())?;
                return Ok(BAD_INPUT);
            }
        };
        let lease = self.0.lease(key).map_err(anyhow::Error::from);
        match lease.and_then(|lease| commands::carry_out(command, &lease, &mut out)) {
            Ok(true) => Ok(0),
            Ok(false) => Ok(NEGATIVE),
            Err(error) => {
                out.err(&format!("{error:#}"))?;
                Ok(match error.is::<ConsoleError>() {
                    true => NEGATIVE,
                    false => BAD_INPUT,
                })
            }
        }
    }
}

/// The output that a command sees.
pub(super) struct Output<'a>(&'a mut dyn FnMut(Said) -> io::Result<()>);

/// How often a command that waits looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(500);

impl Output<'_> {
    /// Sends a line for standard output.
    pub(super) fn out(&mut self, text: impl ToString) -> io::Result<()> {
        (self.0)(Said::Out(text.to_string()))
    }

    /// Sends an error message.
    pub(super) fn err(&mut self, text: &str) -> io::Result<()> {
        (self.0)(Said::Err(text.to_owned()))
    }

    /// Waits for `time`. Returns an error if the command has ended before.
    pub(super) fn pause(&mut self, time: Duration) -> io::Result<()> {
        let mut rest = time;
        while !rest.is_zero() {
            let part = rest.min(LOOK);
            thread::sleep(part);
            rest -= part;
            (self.0)(Said::Waits)?;
        }
        Ok(())
    }
}
