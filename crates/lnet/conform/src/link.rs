//! One TCP connection to the node: writes bytes, reads handshakes and frames.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use lnet_wire::{
    Body, ByteOrder, Connreq, DecodeError, FrameType, Header, HeaderForm, Hello, HelloVersion,
    KsockHeader, ZcAck,
};
use sys::TcpFigures;

use crate::exchange::{Transcript, Way};
use crate::probe::Stop;

/// How long to wait for one connection while several are polled.
const GLANCE: Duration = Duration::from_millis(5);

/// The time between bytes and the end that cuts them.
const CUT_APART: Duration = Duration::from_millis(200);

/// How long a node may take to close a connection after the checker closed it. A kernel takes some milliseconds.
const PARTING: Duration = Duration::from_millis(250);

/// The most frames of the node's own traffic that are skipped while an answer is awaited.
const PASSED_OVER_MAX: usize = 1000;

/// A connection to the node.
pub(crate) struct Link {
    stream: TcpStream,
    number: usize,
    deadline: Instant,
    form: HeaderForm,
    transcript: Transcript,
    /// True if the node has closed the connection.
    is_ended: bool,
}

impl Drop for Link {
    /// Closes the connection and waits until the node has closed it too. A node that still holds a connection rejects
    /// the next one of its type.
    fn drop(&mut self) {
        self.end_writing();
        let deadline = Instant::now() + PARTING;
        let mut room = [0; 4096];
        while !self.is_ended {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return;
            }
            self.is_ended = match self.stream.read(&mut room) {
                Ok(count) => count == 0,
                Err(error) => !is_wait(error.kind()),
            };
        }
    }
}

/// A HELLO that the node sent.
pub(crate) struct HeardHello {
    /// Its fields.
    pub(crate) hello: Hello,
    /// The order of its integers.
    pub(crate) order: ByteOrder,
}

/// A message that the node sent.
pub(crate) struct Heard {
    /// The frame header.
    pub(crate) frame: KsockHeader,
    /// The LNet header.
    pub(crate) header: Header,
    /// The bytes of the LNet header.
    pub(crate) header_bytes: Vec<u8>,
    /// The payload.
    pub(crate) payload: Vec<u8>,
}

/// A frame that the node sent.
enum Frame {
    Noop(KsockHeader),
    Lnet(Box<Heard>),
}

/// A reaction of the node to received input.
pub(crate) enum Answer {
    /// A REPLY.
    Reply(Box<Heard>),
    /// An ACK.
    Ack(Box<Heard>),
    /// Acknowledgement of zero-copy requests.
    Zc(ZcAck),
}

impl Answer {
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Reply(_) => "a REPLY",
            Self::Ack(_) => "an ACK",
            Self::Zc(_) => "a zero-copy acknowledgement",
        }
    }
}

/// The bytes that arrived before a connection ended.
pub(crate) struct Ended {
    /// The bytes before the end.
    pub(crate) said: Vec<u8>,
    /// True if the end was a reset, which may have lost bytes before it.
    pub(crate) reset: bool,
}

impl Link {
    pub(crate) fn new(
        stream: TcpStream,
        number: usize,
        deadline: Instant,
        version: HelloVersion,
        transcript: Transcript,
    ) -> Self {
        Self {
            stream,
            number,
            deadline,
            form: version.header_form(),
            transcript,
            is_ended: false,
        }
    }

    pub(crate) const fn form(&self) -> HeaderForm {
        self.form
    }

    /// Sends bytes. Ignores errors, because the next read shows that the node has closed.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.transcript.add(self.number, Way::Sent, bytes);
        let _shown_by_the_next_read = self.stream.write_all(bytes);
    }

    /// Sends an LNet message.
    pub(crate) fn send_message(
        &mut self,
        frame: KsockHeader,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Stop> {
        let bytes = self.message(frame, header, payload)?;
        self.send(&bytes);
        Ok(())
    }

    /// The bytes of an LNet message on this connection.
    pub(crate) fn message(
        &self,
        frame: KsockHeader,
        header: &Header,
        payload: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        let mut bytes = frame.to_bytes().to_vec();
        bytes.resize(KsockHeader::LEN + self.form.len(), 0);
        let room = bytes.get_mut(KsockHeader::LEN..).unwrap_or_default();
        header
            .encode(self.form, room)
            .map_err(|error| Stop::NotApplicable(error.to_string()))?;
        bytes.extend_from_slice(payload);
        Ok(bytes)
    }

    /// Closes our side of the connection.
    pub(crate) fn end_writing(&mut self) {
        let _shown_by_the_next_read = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes our side of the connection some time after the last bytes, so that the node reads the bytes first. A
    /// kernel may not see an end that comes in one packet with the bytes before it.
    pub(crate) fn end_after_bytes(&mut self) {
        thread::sleep(CUT_APART);
        self.end_writing();
    }

    /// Reads the connection request of a node that has dialled the checker.
    pub(crate) fn request(&mut self) -> Result<Connreq, Stop> {
        let mut bytes = Vec::new();
        loop {
            let bad =
                |error: DecodeError| Stop::failed(format!("no connection request came: {error}"));
            let needed = Connreq::needed(&bytes).map_err(bad)?;
            if needed <= bytes.len() {
                return Connreq::decode(&bytes).map_err(bad);
            }
            let more = self.read("a connection request", needed - bytes.len())?;
            bytes.extend(more);
        }
    }

    /// Reads the node's HELLO.
    pub(crate) fn hello(&mut self) -> Result<HeardHello, Stop> {
        self.hello_behind(Vec::new())
    }

    /// Reads the rest of the node's HELLO after its first bytes.
    pub(crate) fn hello_behind(&mut self, first: Vec<u8>) -> Result<HeardHello, Stop> {
        let mut bytes = first;
        loop {
            let needed = Hello::needed(&bytes)
                .map_err(|error| Stop::failed(format!("no HELLO came back: {error}")))?;
            if needed <= bytes.len() {
                break;
            }
            let more = self.read("a HELLO", needed - bytes.len())?;
            bytes.extend(more);
        }
        let received = Hello::decode(&bytes)
            .map_err(|error| Stop::failed(format!("no HELLO came back: {error}")))?;
        Ok(HeardHello {
            hello: received.hello,
            order: received.order,
        })
    }

    /// The next answer. Skips keepalives and requests of the node.
    pub(crate) fn answer(&mut self, what: &str) -> Result<Answer, Stop> {
        for _ in 0..PASSED_OVER_MAX {
            match self.frame(what)? {
                Frame::Noop(frame) => match frame.zc_ack() {
                    Ok(ZcAck::None | ZcAck::Keepalive) => {}
                    Ok(acknowledged) => return Ok(Answer::Zc(acknowledged)),
                    Err(error) => return Err(Stop::failed(error.to_string())),
                },
                Frame::Lnet(heard) => match heard.header.body {
                    Body::Reply(_) => return Ok(Answer::Reply(heard)),
                    Body::Ack(_) => return Ok(Answer::Ack(heard)),
                    Body::Put(_) | Body::Get(_) => {}
                },
            }
        }
        Err(Stop::failed(format!(
            "{PASSED_OVER_MAX} frames came, and none of them is {what}"
        )))
    }

    /// The next answer, which must be a REPLY.
    pub(crate) fn reply(&mut self) -> Result<Heard, Stop> {
        match self.answer("a REPLY")? {
            Answer::Reply(heard) => Ok(*heard),
            other => Err(Stop::failed(format!(
                "{} came where a REPLY was due",
                other.name()
            ))),
        }
    }

    /// The next answer, which must be an ACK.
    pub(crate) fn ack(&mut self) -> Result<Heard, Stop> {
        match self.answer("an ACK")? {
            Answer::Ack(heard) => Ok(*heard),
            other => Err(Stop::failed(format!(
                "{} came where an ACK was due",
                other.name()
            ))),
        }
    }

    fn frame(&mut self, what: &str) -> Result<Frame, Stop> {
        let bytes = self.read(what, KsockHeader::LEN)?;
        let frame = KsockHeader::decode(ByteOrder::Little, &bytes)
            .map_err(|error| Stop::failed(format!("instead of {what}: {error}")))?;
        if frame.frame_type == FrameType::Noop {
            return Ok(Frame::Noop(frame));
        }
        let header_bytes = self.read(what, self.form.len())?;
        let header = Header::decode(self.form, &header_bytes)
            .map_err(|error| Stop::failed(format!("instead of {what}: {error}")))?;
        // At most 1 MiB, as the decoder checks.
        let payload = self.read(what, header.payload_length as usize)?;
        Ok(Frame::Lnet(Box::new(Heard {
            frame,
            header,
            header_bytes,
            payload,
        })))
    }

    /// Reads exactly `count` bytes, or returns why they did not arrive.
    pub(crate) fn read(&mut self, what: &str, count: usize) -> Result<Vec<u8>, Stop> {
        let mut bytes = vec![0; count];
        let mut have = 0;
        while have < count {
            let room = bytes.get_mut(have..).unwrap_or_default();
            match self.read_some(room) {
                Got::Bytes(more) => have += more,
                Got::End { reset } => {
                    let how = if reset { "reset" } else { "closed" };
                    return Err(Stop::failed(format!(
                        "the node {how} the connection where {what} was due, after {have} of {count} bytes"
                    )));
                }
                Got::Nothing => {
                    return Err(Stop::failed(format!(
                        "no {} within the timeout: {have} of {count} bytes came",
                        what.trim_start_matches("a ").trim_start_matches("an ")
                    )));
                }
            }
        }
        Ok(bytes)
    }

    /// Reads until the node closes, which it must do within the timeout.
    pub(crate) fn closed(&mut self) -> Result<Ended, Stop> {
        let mut said = Vec::new();
        let mut room = [0; 4096];
        loop {
            match self.read_some(&mut room) {
                Got::Bytes(count) => said.extend_from_slice(room.get(..count).unwrap_or_default()),
                Got::End { reset } => return Ok(Ended { said, reset }),
                Got::Nothing => {
                    return Err(Stop::failed("the node kept the connection open".to_owned()));
                }
            }
        }
    }

    /// Reads and drops bytes until `max` bytes arrived, the connection ends, or nothing arrives for
    /// `patience`, within the timeout. Returns the number of bytes.
    pub(crate) fn drop_input(&mut self, max: usize, patience: Duration) -> usize {
        self.deadline = self.deadline.min(Instant::now() + patience);
        let mut room = [0; 4096];
        let mut swallowed = 0;
        while swallowed < max {
            match self.read_some(&mut room) {
                Got::Bytes(count) => swallowed += count,
                Got::End { .. } | Got::Nothing => break,
            }
        }
        swallowed
    }

    /// Returns how the connection ends: true for a reset, false for a close in order. `None` if the connection does not
    /// end in time, or another byte arrives.
    pub(crate) fn end_within(&mut self, patience: Duration) -> Option<bool> {
        self.deadline = self.deadline.min(Instant::now() + patience);
        match self.read_some(&mut [0]) {
            Got::End { reset } => Some(reset),
            Got::Bytes(_) | Got::Nothing => None,
        }
    }

    /// The system's figures of the connection's segments, if available.
    pub(crate) fn figures(&self) -> Option<TcpFigures> {
        sys::tcp_figures(&self.stream).ok()
    }

    fn read_some(&mut self, room: &mut [u8]) -> Got {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return Got::Nothing;
            }
            match self.stream.read(room) {
                Ok(0) => {
                    self.is_ended = true;
                    self.transcript.add(self.number, Way::Closed, &[]);
                    return Got::End { reset: false };
                }
                Ok(count) => {
                    let bytes = room.get(..count).unwrap_or_default();
                    self.transcript.add(self.number, Way::Received, bytes);
                    return Got::Bytes(count);
                }
                Err(error) if is_wait(error.kind()) => {}
                Err(_) => {
                    self.is_ended = true;
                    self.transcript.add(self.number, Way::Closed, &[]);
                    return Got::End { reset: true };
                }
            }
        }
    }

    /// Returns true if a byte, or the end, can be read now.
    pub(crate) fn is_ready(&self) -> bool {
        let limited = self.stream.set_read_timeout(Some(GLANCE)).is_ok();
        match self.stream.peek(&mut [0]) {
            Ok(_) => limited,
            Err(error) => !is_wait(error.kind()),
        }
    }
}

/// The index of the first link from which something can be read.
pub(crate) fn first_ready(links: &[&Link]) -> Result<usize, Stop> {
    let deadline = links.iter().map(|link| link.deadline).min();
    while deadline.is_some_and(|deadline| Instant::now() < deadline) {
        if let Some(index) = links.iter().position(|link| link.is_ready()) {
            return Ok(index);
        }
    }
    Err(Stop::failed(
        "nothing came on any connection within the timeout".to_owned(),
    ))
}

enum Got {
    Bytes(usize),
    End { reset: bool },
    Nothing,
}

const fn is_wait(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn linked(listener: &TcpListener) -> (Link, TcpStream) {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let transcript = Transcript::default();
        let link = Link::new(stream, 0, deadline, HelloVersion::V3, transcript);
        (link, listener.accept().unwrap().0)
    }

    #[test]
    fn the_next_connection_waits_until_the_node_has_closed_the_last_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (link, mut node) = linked(&listener);
        let is_closing = Arc::new(AtomicBool::new(false));
        let closing = Arc::clone(&is_closing);
        let node = thread::spawn(move || {
            assert_eq!(node.read(&mut [0]).unwrap(), 0, "the checker closes first");
            closing.store(true, Ordering::SeqCst);
            drop(node);
        });
        drop(link);
        assert!(
            is_closing.load(Ordering::SeqCst),
            "the checker did not wait"
        );
        node.join().unwrap();
    }

    #[test]
    fn bytes_arrive_before_the_end_that_cuts_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // On a busy machine the node may look late; one look in time is enough.
        let is_apart = (0..5).any(|_| {
            let (mut link, mut node) = linked(&listener);
            let node = thread::spawn(move || {
                let mut bytes = [0; 16];
                assert_eq!(node.read(&mut bytes).unwrap(), 10);
                node.set_read_timeout(Some(CUT_APART / 4)).unwrap();
                let second = node.read(&mut bytes);
                second.is_err_and(|error| is_wait(error.kind()))
            });
            link.send(&[1; 10]);
            link.end_after_bytes();
            node.join().unwrap()
        });
        assert!(is_apart);
    }
}
