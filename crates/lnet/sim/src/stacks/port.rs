//! A machine's access to the virtual network, in the form that the LND uses.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lnet_tcp::{AddNiError, DialFailure, Network, Readiness, SocklndConfig, Stream};
use sys::{Gather, Scatter};

use crate::stacks::fabric::{Fabric, Happening};
use crate::stacks::line::{Parcel, Stage, WHOLE};

/// The network that the machines of a world share. One thread uses it; the lock exists because the LND's streams
/// must be shareable among threads.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Fabric>>);

impl Shared {
    pub(crate) fn new(fabric: Fabric) -> Self {
        Self(Arc::new(Mutex::new(fabric)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Fabric> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A machine's access to the network.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) fabric: Shared,
    pub(crate) machine: u32,
}

/// A handle of one end of a line.
#[derive(Debug)]
pub(crate) struct Handle {
    fabric: Shared,
    line: u64,
    at: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.fabric.lock().close(self.line, self.at);
    }
}

/// A write that fits a line is cut short once in so many times.
const SHORT_WRITE_ONE_IN: u64 = 16;

/// A write is sent as several parcels once in so many times, so that the reader finds less than a frame.
const SPLIT_ONE_IN: u64 = 3;

impl Stream for Handle {
    fn read(&self, room: &mut Scatter<'_>) -> io::Result<usize> {
        let mut fabric = self.fabric.lock();
        let now = fabric.now;
        let line = fabric.line_mut(self.line).ok_or(ErrorKind::NotConnected)?;
        let latency = line.latency_ns;
        let end = &mut line.ends[self.at];
        if end.readable()? == 0 {
            return Ok(0);
        }
        let taken = room.fill_from(end.inbox.make_contiguous());
        end.inbox.drain(..taken);
        end.took += taken as u64;
        let other = 1 - self.at;
        if line.ends[other].wants_room {
            let what = Happening::Room(self.line, other);
            fabric.agenda.plan(now + latency, what);
        }
        Ok(taken)
    }

    fn write(&self, bytes: &Gather<'_>, _more: bool) -> io::Result<usize> {
        let mut fabric = self.fabric.lock();
        let line = fabric.line(self.line).ok_or(ErrorKind::NotConnected)?;
        if line.ends[self.at].reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let room = line.room(self.at);
        let is_whole = line.capacity == room && bytes.len() <= WHOLE;
        let mut count = bytes.len().min(room);
        if count > 1 && !is_whole && fabric.random.one_in(SHORT_WRITE_ONE_IN) {
            count = 1 + fabric.random.below(count as u64) as usize;
        }
        if count < bytes.len() {
            self.ask_for_room(&mut fabric);
        }
        if count == 0 && !bytes.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let mut taken = Vec::with_capacity(count);
        bytes.append_to(&mut taken, count);
        self.post(&mut fabric, taken);
        Ok(count)
    }

    fn end_writing(&self) -> io::Result<()> {
        self.fabric.lock().send(self.line, self.at, Parcel::End);
        Ok(())
    }

    fn unacknowledged(&self) -> u64 {
        let fabric = self.fabric.lock();
        let line = fabric.line(self.line);
        line.map_or(0, |line| line.unacknowledged(self.at) as u64)
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        let fabric = self.fabric.lock();
        let line = fabric.line(self.line).ok_or(ErrorKind::NotConnected)?;
        Ok(line.ends[self.at].address)
    }
}

impl Handle {
    /// Records that the writer found the line full, and plans the report that the line has room.
    fn ask_for_room(&self, fabric: &mut Fabric) {
        let at = fabric.now + fabric.random.within(10_000, 500_000);
        if let Some(line) = fabric.line_mut(self.line) {
            line.ends[self.at].wants_room = true;
            if line.room(self.at) > 0 {
                fabric.agenda.plan(at, Happening::Room(self.line, self.at));
            }
        }
    }

    fn post(&self, fabric: &mut Fabric, mut bytes: Vec<u8>) {
        let breaks = fabric.wrote(self.line, self.at, &mut bytes);
        while bytes.len() > 1 && fabric.random.one_in(SPLIT_ONE_IN) {
            let at = 1 + fabric.random.below(bytes.len() as u64 - 1) as usize;
            let rest = bytes.split_off(at);
            fabric.send(self.line, self.at, Parcel::Bytes(bytes));
            bytes = rest;
        }
        fabric.send(self.line, self.at, Parcel::Bytes(bytes));
        if breaks {
            fabric.reset(self.line);
        }
    }
}

impl Port {
    fn handle(&self, line: u64, at: usize) -> Handle {
        Handle {
            fabric: self.fabric.clone(),
            line,
            at,
        }
    }
}

impl Network for Port {
    type Stream = Handle;
    type Listener = SocketAddr;

    fn listen(
        &mut self,
        slot: usize,
        address: IpAddr,
        config: &SocklndConfig,
    ) -> Result<SocketAddr, AddNiError> {
        let address = SocketAddr::new(address, config.port);
        self.fabric.lock().listen(self.machine, slot, address);
        Ok(address)
    }

    fn probe(&mut self, _: IpAddr, _: &SocklndConfig) -> Result<(), AddNiError> {
        Ok(())
    }

    fn accept(&mut self, listener: &SocketAddr) -> io::Result<(Handle, SocketAddr)> {
        let accepted = self.fabric.lock().accept(*listener);
        let (line, remote) = accepted.ok_or(ErrorKind::WouldBlock)?;
        Ok((self.handle(line, 1), remote))
    }

    fn admit(&mut self, slot: usize, stream: &Handle) -> io::Result<()> {
        let mut fabric = self.fabric.lock();
        let line = fabric.line_mut(stream.line);
        line.ok_or(ErrorKind::NotConnected)?.ends[stream.at].slot = Some(slot);
        // Like a poll, which reports the state of a newly registered socket.
        let state = Readiness {
            readable: true,
            writable: true,
            closed: false,
        };
        fabric.tell(stream.line, stream.at, state);
        Ok(())
    }

    fn dial(
        &mut self,
        slot: usize,
        local: IpAddr,
        remote: SocketAddr,
        _tos: Option<u8>,
        _config: &SocklndConfig,
    ) -> Result<Handle, DialFailure> {
        let line = self.fabric.lock().dial(self.machine, slot, local, remote);
        Ok(self.handle(line, 0))
    }

    fn connected(&self, stream: &Handle) -> Option<Result<(), DialFailure>> {
        let fabric = self.fabric.lock();
        match fabric.line(stream.line).map(|line| line.stage) {
            Some(Stage::Dialling) => None,
            Some(Stage::Failed(why)) => Some(Err(why)),
            Some(Stage::Up) => Some(Ok(())),
            None => Some(Err(DialFailure::System)),
        }
    }

    fn set_tos(&self, _: &Handle, _: Option<u8>) -> io::Result<()> {
        Ok(())
    }

    fn forget(&mut self, stream: &Handle) {
        if let Some(line) = self.fabric.lock().line_mut(stream.line) {
            line.ends[stream.at].slot = None;
        }
    }

    fn close(&mut self, listener: SocketAddr) {
        self.fabric.lock().close_listener(listener);
    }
}
