//! A process that acts as many peers: each address of 127.0.0.0/8 that is dialled is one peer.
//!
//! One thread listens on all addresses, completes the handshake as the NID that the acceptor request names, and
//! answers pings and pushes. It dials no node.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};

use anyhow::{Context, bail};
use lnet_types::Nid;
use lnet_wire::{
    ByteOrder, Connreq, Ctype, FrameType, Header, HeaderForm, Hello, KsockHeader, LNET_MTU,
};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

use super::played;
use crate::peer::{self, PeerArgs};

/// The limit on the connections that wait to be accepted. It covers all connections that a node dials at once.
const BACKLOG: i32 = 4096;
/// The limit on the events of one poll.
const EVENTS: usize = 1024;
/// The limit on the bytes of one read.
const READ_LEN: usize = 64 << 10;
const LISTENER: Token = Token(usize::MAX);

/// A connection.
struct Link {
    stream: TcpStream,
    stage: Stage,
    /// Bytes that were read and not used yet.
    bytes: Vec<u8>,
}

/// What the connection expects next.
#[derive(Clone, Copy)]
enum Stage {
    Connreq,
    Hello(Nid),
    Frames(Nid, ByteOrder, HeaderForm),
}

/// Acts as peers at the port until the process ends.
pub(crate) fn serve(args: &PeerArgs) -> anyhow::Result<()> {
    let mut listener = listen(args.port)?;
    let mut poll = Poll::new().context("cannot wait for sockets")?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut links: Vec<Option<Link>> = Vec::new();
    let mut events = Events::with_capacity(EVENTS);
    peer::ready(args.port)?;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut links)?;
                continue;
            }
            let Some(place) = links.get_mut(event.token().0) else {
                continue;
            };
            // A connection that breaks the protocol or has closed is dropped; the bench notices the missing peer.
            if let Some(link) = place
                && link.ready().is_err()
            {
                *place = None;
            }
        }
    }
}

fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket
        .bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())
        .context("cannot take the port")?;
    socket.listen(BACKLOG).context("cannot listen")?;
    Ok(TcpListener::from_std(socket.into()))
}

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    links: &mut Vec<Option<Link>>,
) -> anyhow::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("cannot accept a connection"),
        };
        stream.set_nodelay(true)?;
        let token = Token(links.len());
        poll.registry()
            .register(&mut stream, token, Interest::READABLE)?;
        links.push(Some(Link {
            stream,
            stage: Stage::Connreq,
            bytes: Vec::new(),
        }));
    }
}

impl Link {
    /// Reads everything that is there, and answers it.
    fn ready(&mut self) -> anyhow::Result<()> {
        let mut buffer = vec![0; READ_LEN];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("closed"),
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            while let Some(used) = self.step()? {
                self.bytes.drain(..used);
            }
        }
    }

    /// Handles the next complete part; returns its length, or `None` if more bytes are needed.
    fn step(&mut self) -> anyhow::Result<Option<usize>> {
        match self.stage {
            Stage::Connreq => {
                let needed = Connreq::needed(&self.bytes)?;
                if self.bytes.len() < needed {
                    return Ok(None);
                }
                let target = Connreq::decode(&self.bytes)?.target;
                self.stage = Stage::Hello(target);
                Ok(Some(needed))
            }
            Stage::Hello(own) => self.hello(own),
            Stage::Frames(own, order, form) => self.frame(own, order, form),
        }
    }

    fn hello(&mut self, own: Nid) -> anyhow::Result<Option<usize>> {
        let needed = Hello::needed(&self.bytes)?;
        if self.bytes.len() < needed {
            return Ok(None);
        }
        let received = Hello::decode(&self.bytes)?;
        let (hello, order, used) = (received.hello, received.order, received.len);
        let ctype = hello.ctype.inverse().unwrap_or(Ctype::NONE);
        let mut answer = [0; Hello::MAX_LEN];
        let length = hello.reply(own, 1, ctype).encode(&mut answer)?;
        self.stream.write_all(&answer[..length])?;
        self.stage = Stage::Frames(own, order, hello.version.header_form());
        Ok(Some(used))
    }

    fn frame(
        &mut self,
        own: Nid,
        order: ByteOrder,
        form: HeaderForm,
    ) -> anyhow::Result<Option<usize>> {
        if self.bytes.len() < KsockHeader::LEN {
            return Ok(None);
        }
        let frame = KsockHeader::decode(order, &self.bytes)?;
        if frame.frame_type == FrameType::Noop {
            return Ok(Some(KsockHeader::LEN));
        }
        let payload_at = KsockHeader::LEN + form.len();
        if self.bytes.len() < payload_at {
            return Ok(None);
        }
        let header = Header::decode(form, &self.bytes[KsockHeader::LEN..])?;
        if header.payload_length > LNET_MTU {
            bail!("a message of {} bytes", header.payload_length);
        }
        let length = payload_at + header.payload_length as usize;
        if self.bytes.len() < length {
            return Ok(None);
        }
        if let Some((header, payload)) = played::answer(own, &header)? {
            let mut bytes = KsockHeader::LNET.to_bytes().to_vec();
            bytes.resize(payload_at, 0);
            header.encode(form, &mut bytes[KsockHeader::LEN..])?;
            bytes.extend_from_slice(&payload);
            // Answers are small and the node reads them, so the socket has room.
            self.stream.write_all(&bytes)?;
        }
        Ok(Some(length))
    }
}
