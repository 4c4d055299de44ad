//! Streams in memory between two nodes, as cheap as a stream can be: a write appends to a vector, a read takes from it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

use lnet_tcp::{AddNiError, DialFailure, Network, Readiness, SocklndConfig, Stream};
use sys::{Gather, Scatter};

/// The network of two nodes.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lines: Vec<[End; 2]>,
    listeners: Vec<Listener>,
    /// What a node is to be told: the address of its end, the slot, and the readiness.
    news: Vec<(IpAddr, usize, Readiness)>,
}

struct Listener {
    address: SocketAddr,
    slot: usize,
    waiting: Vec<usize>,
}

struct End {
    address: SocketAddr,
    slot: Option<usize>,
    arrived: Vec<u8>,
    taken: usize,
}

/// One end of a connection.
pub(crate) struct Handle {
    memory: Memory,
    line: usize,
    end: usize,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Takes what the node at these addresses is to be told.
    pub(crate) fn news(&self, addresses: &[IpAddr]) -> Vec<(usize, Readiness)> {
        let mut state = self.lock();
        let is_own = |news: &(IpAddr, usize, Readiness)| addresses.contains(&news.0);
        let (own, others) = state.news.drain(..).partition(is_own);
        state.news = others;
        let own: Vec<(IpAddr, usize, Readiness)> = own;
        own.into_iter()
            .map(|(_, slot, news)| (slot, news))
            .collect()
    }

    fn handle(&self, line: usize, end: usize) -> Handle {
        let memory = self.clone();
        Handle { memory, line, end }
    }
}

impl State {
    fn tell(&mut self, line: usize, end: usize) {
        let End { address, slot, .. } = &self.lines[line][end];
        if let Some(slot) = *slot {
            let readiness = Readiness {
                readable: true,
                writable: true,
                closed: false,
            };
            self.news.push((address.ip(), slot, readiness));
        }
    }
}

impl Stream for Handle {
    fn read(&self, room: &mut Scatter<'_>) -> io::Result<usize> {
        let mut state = self.memory.lock();
        let end = &mut state.lines[self.line][self.end];
        let taken = room.fill_from(&end.arrived[end.taken..]);
        end.taken += taken;
        if end.taken == end.arrived.len() {
            (end.taken, _) = (0, end.arrived.clear());
        }
        if taken == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    fn write(&self, bytes: &Gather<'_>, _more: bool) -> io::Result<usize> {
        let mut state = self.memory.lock();
        let other = 1 - self.end;
        let end = &mut state.lines[self.line][other];
        let was_empty = end.arrived.is_empty();
        bytes.append_to(&mut end.arrived, bytes.len());
        if was_empty {
            state.tell(self.line, other);
        }
        Ok(bytes.len())
    }

    fn end_writing(&self) -> io::Result<()> {
        Ok(())
    }

    fn unacknowledged(&self) -> u64 {
        0
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(self.memory.lock().lines[self.line][self.end].address)
    }
}

impl Network for Memory {
    type Stream = Handle;
    type Listener = SocketAddr;

    fn listen(
        &mut self,
        slot: usize,
        address: IpAddr,
        config: &SocklndConfig,
    ) -> Result<SocketAddr, AddNiError> {
        let address = SocketAddr::new(address, config.port);
        let waiting = Vec::new();
        self.lock().listeners.push(Listener {
            address,
            slot,
            waiting,
        });
        Ok(address)
    }

    fn probe(&mut self, _: IpAddr, _: &SocklndConfig) -> Result<(), AddNiError> {
        Ok(())
    }

    fn accept(&mut self, listener: &SocketAddr) -> io::Result<(Handle, SocketAddr)> {
        let mut state = self.lock();
        let found = state.listeners.iter_mut();
        let mut found = found.filter(|one| one.address == *listener);
        let line = found.find_map(|one| one.waiting.pop());
        let line = line.ok_or(ErrorKind::WouldBlock)?;
        let remote = state.lines[line][0].address;
        drop(state);
        Ok((self.handle(line, 1), remote))
    }

    fn admit(&mut self, slot: usize, stream: &Handle) -> io::Result<()> {
        let mut state = self.lock();
        state.lines[stream.line][stream.end].slot = Some(slot);
        state.tell(stream.line, stream.end);
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
        let mut state = self.lock();
        let line = state.lines.len();
        let end = |address, slot| End {
            address,
            slot,
            arrived: Vec::with_capacity(1 << 20),
            taken: 0,
        };
        let near = end(SocketAddr::new(local, 1000 + line as u16), Some(slot));
        state.lines.push([near, end(remote, None)]);
        state.tell(line, 0);
        let found = state.listeners.iter_mut();
        let listener = found.into_iter().find(|one| one.address == remote);
        let listener = listener.ok_or(DialFailure::Refused)?;
        listener.waiting.push(line);
        let (slot, address) = (listener.slot, remote.ip());
        let readiness = Readiness {
            readable: true,
            ..Readiness::default()
        };
        state.news.push((address, slot, readiness));
        drop(state);
        Ok(self.handle(line, 0))
    }

    fn connected(&self, _: &Handle) -> Option<Result<(), DialFailure>> {
        Some(Ok(()))
    }

    fn set_tos(&self, _: &Handle, _: Option<u8>) -> io::Result<()> {
        Ok(())
    }

    fn forget(&mut self, stream: &Handle) {
        self.lock().lines[stream.line][stream.end].slot = None;
    }

    fn close(&mut self, _: SocketAddr) {}
}
