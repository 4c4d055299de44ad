//! Looking at the node over its control socket.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use lnet_control::{Part, Request};
use lnet_dlc::{Dlc, DlcError};

use super::sample::Sample;

/// What a look gave: a sample, or why there is none.
pub(crate) type Look = Result<Sample, String>;

/// A connection that is made when it is needed, and made again when the node was away.
pub(crate) struct Feed {
    path: PathBuf,
    /// How long the node may say nothing.
    patience: Duration,
    dlc: Option<Dlc>,
}

impl Feed {
    pub(crate) fn new(path: &Path, patience: Duration) -> Self {
        Self {
            path: path.to_owned(),
            patience,
            dlc: None,
        }
    }

    /// Looks at the node.
    pub(crate) fn look(&mut self) -> Look {
        // A connection that was kept may be that to a node that has ended meanwhile.
        let is_kept = self.dlc.is_some();
        match self.try_look() {
            Err(error) if is_kept && !matches!(error, DlcError::Silent { .. }) => self.try_look(),
            look => look,
        }
        .map_err(|error| why(&error))
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
        self.dlc = Some(dlc);
        Ok(sample)
    }

    /// Goes on looking in a thread of its own, so that keys are answered while the node is not.
    pub(super) fn spawn(mut self, interval: Duration) -> std::io::Result<Looks> {
        // One look waits at most: whoever does not take them gets fewer.
        let (sender, looks) = sync_channel(1);
        let (stop, stopped) = channel();
        thread::Builder::new()
            .name("top-feed".into())
            .spawn(move || self.run(interval, &sender, &stopped))?;
        Ok(Looks { looks, _stop: stop })
    }

    fn run(&mut self, interval: Duration, looks: &SyncSender<Look>, stopped: &Receiver<()>) {
        loop {
            let look = self.look();
            // While the node is away it is looked for more often than it would be looked at.
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

/// The looks of a [`Feed`], which ends when this is dropped.
pub(super) struct Looks {
    pub(super) looks: Receiver<Look>,
    _stop: Sender<()>,
}

/// Errors of connecting name the path, which is shown anyway.
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
