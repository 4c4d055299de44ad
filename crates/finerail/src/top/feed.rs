//! Takes samples of a node over its control socket.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use lnet_dlc::protocol::{Part, Request};
use lnet_dlc::{Dlc, DlcError};

use super::sample::Sample;

/// The result of one request for a sample: the sample, or the reason why there is none.
pub(super) type Look = Result<Sample, String>;

/// A source of samples. It connects to the node when needed, and connects again after the node was restarted.
pub(crate) struct Feed {
    path: PathBuf,
    /// The timeout of the node's answers.
    patience: Duration,
    wants_rpcs: bool,
    dlc: Option<Dlc>,
}

impl Feed {
    pub(crate) fn new(path: &Path, patience: Duration) -> Self {
        Self {
            path: path.to_owned(),
            patience,
            wants_rpcs: false,
            dlc: None,
        }
    }

    /// Also asks for Lustre's RPCs, if wanted.
    pub(super) fn with_rpcs(self, wants_rpcs: bool) -> Self {
        Self { wants_rpcs, ..self }
    }

    /// Takes a sample of the node.
    pub(crate) fn look(&mut self) -> Result<Sample, DlcError> {
        // The node behind a kept connection may have ended, so an error there is retried with a new connection.
        let is_kept = self.dlc.is_some();
        match self.try_look() {
            Err(error) if is_kept && !matches!(error, DlcError::Silent { .. }) => self.try_look(),
            look => look,
        }
    }

    fn try_look(&mut self) -> Result<Sample, DlcError> {
        let mut dlc = match self.dlc.take() {
            Some(dlc) => dlc,
            None => Dlc::connect_within(&self.path, self.patience)?,
        };
        let mut sample = Sample::default();
        let mut malformed = None;
        dlc.request_pieces(&Request::Numbers, |piece| match Part::from_text(piece) {
            Ok(part) => sample.add(part),
            Err(error) => malformed = Some(error.to_string()),
        })?;
        if let Some(error) = malformed {
            return Err(DlcError::Answer(error));
        }
        if self.wants_rpcs {
            let text = dlc.request(&Request::RpcNumbers)?;
            let rpcs = serde_json::from_str(&text);
            sample.rpcs = rpcs.map_err(|error| DlcError::Answer(error.to_string()))?;
        }
        self.dlc = Some(dlc);
        Ok(sample)
    }

    /// Takes samples in a thread of its own, so that the user interface reacts to keys while the node does not
    /// answer.
    pub(super) fn spawn(mut self, interval: Duration) -> std::io::Result<Looks> {
        // At most one sample waits. While the receiver does not take it, no other sample is taken.
        let (sender, looks) = sync_channel(1);
        let (stop, stopped) = channel();
        thread::Builder::new()
            .name("top-feed".into())
            .spawn(move || self.run(interval, &sender, &stopped))?;
        Ok(Looks { looks, _stop: stop })
    }

    fn run(&mut self, interval: Duration, looks: &SyncSender<Look>, stopped: &Receiver<()>) {
        loop {
            let look = self.look().map_err(|error| why(&error));
            // A node that does not answer is asked at least once a second, so that its return is noticed soon.
            let pause = if look.is_ok() {
                interval
            } else {
                interval.min(Duration::from_secs(1))
            };
            let gone = looks.send(look).is_err();
            if gone || stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }
}

/// The receiver of the samples of a [`Feed`]. Dropping it ends the feed.
pub(super) struct Looks {
    pub(super) looks: Receiver<Look>,
    _stop: Sender<()>,
}

/// Formats an error. An error of connecting contains the path, which is displayed anyway, so the path is left
/// out.
fn why(error: &DlcError) -> String {
    match error {
        DlcError::Connect { error, .. } => {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            text.get(..end).unwrap_or(&text).to_owned()
        }
        other => other.to_string(),
    }
}
