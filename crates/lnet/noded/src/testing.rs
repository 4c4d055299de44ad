//! The border to the console of LNet selftest: what a program gives a node so that commands of `lst` reach it.

use std::io;

use lnet_dlc::protocol::Said;

/// A console of LNet selftest on a node. The program that runs the node has it: this crate knows no selftest.
pub trait TestConsole: Send + Sync {
    /// Carries out a command of the session with this key, and passes what the command prints to `say`. Returns the
    /// exit code of the command.
    ///
    /// # Errors
    ///
    /// The error of `say`: the client has gone.
    fn carry_out(
        &self,
        key: &str,
        words: &[String],
        say: &mut dyn FnMut(Said) -> io::Result<()>,
    ) -> io::Result<u8>;
}
