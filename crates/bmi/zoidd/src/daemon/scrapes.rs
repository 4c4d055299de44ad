//! Metrics over a Unix-domain socket: one HTTP request and one answer per connection.
//!
//! `curl --unix-socket DIRECTORY/zbmi.default.metrics http://localhost/metrics` prints them. The answer is
//! the same for every path.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use tracing::debug;

use super::{Daemon, SCRAPES};
use crate::error::Error;
use crate::metrics::{self, View};

/// The most simultaneous scrapes.
const SCRAPES_MAX: usize = 8;

/// The longest request that is read, in bytes.
const REQUEST_MAX: usize = 8 << 10;

/// The time limit of a scrape in heartbeats: half a minute.
const TIME_LIMIT: u32 = 600;

/// The open scrapes.
#[derive(Debug)]
pub(super) struct Scrapes {
    listener: UnixListener,
    scrapes: [Option<Scrape>; SCRAPES_MAX],
    arrivals: u64,
}

#[derive(Debug)]
struct Scrape {
    stream: UnixStream,
    request: Vec<u8>,
    /// The answer, if there is one, and the number of bytes written.
    answer: Option<(Vec<u8>, usize)>,
    beats: u32,
    /// The number of its arrival.
    arrival: u64,
}

impl Scrapes {
    // [WATCH-1]
    pub(super) fn bind(path: &Path) -> Result<Self, Error> {
        let listener = UnixListener::bind(path).map_err(Error::file("listen on", path))?;
        let owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(path, owner).map_err(Error::file("chmod", path))?;
        Ok(Self {
            listener,
            scrapes: std::array::from_fn(|_| None),
            arrivals: 0,
        })
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.listener, token, Interest::READABLE)
    }

    // [WATCH-2]
    pub(super) fn accept(&mut self, registry: &Registry, first_token: usize) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let free = self.scrapes.iter().position(Option::is_none);
            // A new scrape is always served. If it has to take the place of another one, it takes that of the
            // oldest; a scrape ends at once unless its client neither asks nor reads.
            let Some(index) = free.or_else(|| self.oldest()) else {
                continue;
            };
            if let Some(place) = self.scrapes.get_mut(index) {
                *place = None;
            }
            let interest = Interest::READABLE | Interest::WRITABLE;
            let watched = registry.register(&mut stream, Token(first_token + index), interest);
            if let (Ok(()), Some(place)) = (watched, self.scrapes.get_mut(index)) {
                *place = Some(Scrape {
                    stream,
                    request: Vec::new(),
                    answer: None,
                    beats: 0,
                    arrival: self.arrivals,
                });
                self.arrivals += 1;
            }
        }
    }

    fn oldest(&self) -> Option<usize> {
        let scrapes = self.scrapes.iter().enumerate();
        let arrivals = scrapes.filter_map(|(at, scrape)| Some((scrape.as_ref()?.arrival, at)));
        arrivals.min().map(|(_, at)| at)
    }

    /// Closes idle scrapes; called once per heartbeat.
    pub(super) fn forget_idle(&mut self) {
        for place in &mut self.scrapes {
            if let Some(scrape) = place {
                scrape.beats += 1;
                if scrape.beats > TIME_LIMIT {
                    *place = None;
                }
            }
        }
    }
}

impl Daemon {
    fn exposition(&self) -> String {
        let peers = self.keys.keys();
        let mut clients: Vec<_> = peers
            .filter_map(|peer| Some((peer.pid.0, self.engine.client_traffic(*peer)?)))
            .collect();
        clients.sort_unstable_by_key(|(pid, _)| *pid);
        let view = View {
            clients: &clients,
            ..self.view()
        };
        metrics::exposition(&view.samples())
    }

    /// Returns all counters, without those of each client.
    pub(super) fn view(&self) -> View<'_> {
        View {
            engine: self.engine.counters(),
            gauges: self.engine.gauges(),
            daemon: &self.counters,
            server: self.engine.session().is_some(),
            reported: self.segment.server_statistics(),
            huge_page_bytes: self.segment.huge_page_bytes(),
            options: &self.options,
            uptime: self.start.elapsed(),
            clients: &[],
        }
    }

    /// Handles an event of a scrape.
    pub(super) fn scrape(&mut self, index: usize) {
        debug_assert!(index < SCRAPES, "{index}");
        let Some(Some(scrape)) = self.scrapes.scrapes.get_mut(index) else {
            return;
        };
        let result = match scrape.answer {
            None => scrape.read(),
            Some(_) => Ok(true),
        };
        let asked = matches!(result, Ok(true)) && scrape.answer.is_none();
        let text = asked.then(|| self.exposition());
        let Some(Some(scrape)) = self.scrapes.scrapes.get_mut(index) else {
            return;
        };
        if let Some(text) = text {
            scrape.answer = Some((http(&text), 0));
        }
        let over = match result {
            Ok(true) => scrape.write(),
            Ok(false) => Ok(false),
            Err(error) => Err(error),
        };
        match over {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => debug!(%error, "a scrape ended early"),
        }
        if let Some(place) = self.scrapes.scrapes.get_mut(index) {
            *place = None;
        }
    }
}

impl Scrape {
    /// Reads. Returns whether the request is complete.
    fn read(&mut self) -> io::Result<bool> {
        let mut piece = [0; 1024];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.request.extend(piece.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let complete = self.request.windows(4).any(|end| end == b"\r\n\r\n");
            if complete || self.request.len() > REQUEST_MAX {
                return Ok(true);
            }
        }
    }

    /// Writes. Returns whether the answer is written.
    fn write(&mut self) -> io::Result<bool> {
        let Some((answer, written)) = &mut self.answer else {
            return Ok(true);
        };
        while let Some(rest) = answer.get(*written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => *written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn http(text: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    (head + text).into_bytes()
}
