//! Reads exactly the bytes of a handshake, and none of the first frame.

use std::io::{ErrorKind, Read};

use lnet_wire::{DecodeError, Hello};

/// Why a handshake could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The peer closed or reset the connection, or the system failed.
    Disconnected,
    /// The bytes are wrong.
    Malformed(DecodeError),
}

/// The bytes of a connection request or a HELLO received so far.
#[derive(Debug)]
pub(crate) struct HandshakeReader {
    bytes: [u8; Hello::MAX_LEN],
    have: usize,
}

impl HandshakeReader {
    pub(crate) fn new() -> Self {
        Self {
            bytes: [0; Hello::MAX_LEN],
            have: 0,
        }
    }

    /// Reads further bytes. `needed` computes from a prefix how long the structure is at least.
    /// Returns the structure once it is complete, `None` before.
    pub(crate) fn read(
        &mut self,
        socket: &mut impl Read,
        needed: fn(&[u8]) -> Result<usize, DecodeError>,
    ) -> Result<Option<&[u8]>, ReadError> {
        loop {
            let want = needed(&self.bytes[..self.have])
                .map_err(ReadError::Malformed)?
                .min(self.bytes.len());
            if self.have >= want {
                return Ok(Some(&self.bytes[..self.have]));
            }
            match socket.read(&mut self.bytes[self.have..want]) {
                Ok(0) => return Err(ReadError::Disconnected),
                Ok(count) => self.have += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(ReadError::Disconnected),
            }
        }
    }

    /// Begins the next structure.
    pub(crate) fn clear(&mut self) {
        self.have = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::io;

    use lnet_wire::{Connreq, Ctype};

    use super::*;

    /// A stream that gives one byte, then nothing, alternately.
    struct Dribble(VecDeque<u8>, bool);

    impl Read for Dribble {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::WouldBlock.into());
            }
            buffer[0] = self.0.pop_front().unwrap();
            Ok(1)
        }
    }

    #[test]
    fn a_dribbled_handshake_is_read_to_its_last_byte_and_no_further() {
        let nid = "10.0.0.1@tcp".parse().unwrap();
        let mut bytes = [0; 73];
        Connreq::to(nid).encode(&mut bytes).unwrap();
        Hello::dial(nid, nid, 1, Ctype::CONTROL)
            .encode(&mut bytes[16..])
            .unwrap();
        let mut socket = Dribble(bytes.into(), false);
        let mut reader = HandshakeReader::new();
        while reader.read(&mut socket, Connreq::needed).unwrap().is_none() {}
        assert_eq!(socket.0.len(), 57);
        reader.clear();
        while reader.read(&mut socket, Hello::needed).unwrap().is_none() {}
        assert_eq!(socket.0.len(), 1);
    }

    #[test]
    fn an_end_in_the_middle_is_a_disconnection() {
        let mut socket: &[u8] = &[0x00, 0x71, 0xCE];
        let result = HandshakeReader::new()
            .read(&mut socket, Connreq::needed)
            .map(|_| ());
        assert!(matches!(result, Err(ReadError::Disconnected)));
    }

    #[test]
    fn a_wrong_magic_is_refused_after_four_bytes() {
        let mut socket: &[u8] = b"GET / HTTP/1.1";
        let result = HandshakeReader::new()
            .read(&mut socket, Connreq::needed)
            .map(|_| ());
        assert!(matches!(result, Err(ReadError::Malformed(_))));
        assert_eq!(socket, b"/ HTTP/1.1".as_slice());
    }
}
