//! Why a capture could not be read to its end.

use std::io;

use thiserror::Error;

/// The error that ends the reading of a capture.
///
/// The messages of all packets before the error were delivered, so a caller can print the summary
/// and then the error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file starts with neither a pcap nor a pcapng header.
    #[error("not a pcap or pcapng file")]
    NotACapture,
    /// The file is empty.
    #[error("the capture is empty")]
    Empty,
    /// The file ends inside a record, as after a full disk or a killed capture program.
    #[error("the capture is truncated: it ends inside a record that starts at byte {offset}")]
    Truncated {
        /// Where the incomplete record starts, in bytes from the start of the file.
        offset: u64,
    },
    /// A record contradicts the file format.
    #[error("the capture is damaged: the record at byte {offset} is malformed")]
    Malformed {
        /// Where the record starts, in bytes from the start of the file.
        offset: u64,
    },
    /// A record is larger than any packet.
    #[error("the record at byte {offset} of the capture is larger than {limit} bytes")]
    RecordTooLarge {
        /// Where the record starts, in bytes from the start of the file.
        offset: u64,
        /// The largest record that is read, in bytes.
        limit: usize,
    },
    /// Reading the file failed.
    #[error("cannot read the capture: {0}")]
    Read(#[source] io::Error),
    /// The receiver of the messages failed, for example because the terminal was closed.
    #[error("cannot write the messages: {0}")]
    Output(#[source] io::Error),
}
