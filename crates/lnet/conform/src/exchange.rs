//! The bytes that a check sent and received.

use std::cell::RefCell;
use std::rc::Rc;

/// The most bytes of one exchange that are kept.
const KEPT_MAX: usize = 512;

/// The most exchanges of one check that are kept.
const EXCHANGES_MAX: usize = 256;

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the checker to the node.
    Sent,
    /// From the node to the checker.
    Received,
    /// The node closed the connection; there are no bytes.
    Closed,
}

/// Bytes that went one way on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The number of the connection within the check, from 0.
    pub connection: usize,
    /// Their direction.
    pub way: Way,
    /// The first bytes, at most 512.
    pub bytes: Vec<u8>,
    /// The number of all bytes.
    pub length: usize,
}

impl Exchange {
    fn of(connection: usize, way: Way, bytes: &[u8]) -> Self {
        Self {
            connection,
            way,
            bytes: bytes.iter().copied().take(KEPT_MAX).collect(),
            length: bytes.len(),
        }
    }
}

/// The exchanges of one check, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript(Rc<RefCell<Vec<Exchange>>>);

impl Transcript {
    pub(crate) fn add(&self, connection: usize, way: Way, bytes: &[u8]) {
        let mut exchanges = self.0.borrow_mut();
        // Bytes that are read in several pieces form one exchange.
        if let Some(last) = exchanges.last_mut()
            && (last.connection, last.way) == (connection, way)
        {
            let room = KEPT_MAX.saturating_sub(last.bytes.len());
            last.bytes.extend(bytes.iter().take(room));
            last.length += bytes.len();
        } else if exchanges.len() < EXCHANGES_MAX {
            exchanges.push(Exchange::of(connection, way, bytes));
        }
    }

    /// Adds a message, which stays an exchange of its own.
    pub(crate) fn add_message(&self, connection: usize, way: Way, bytes: &[u8]) {
        let mut exchanges = self.0.borrow_mut();
        if exchanges.len() < EXCHANGES_MAX {
            exchanges.push(Exchange::of(connection, way, bytes));
        }
    }

    pub(crate) fn take(&self) -> Vec<Exchange> {
        self.0.take()
    }
}
