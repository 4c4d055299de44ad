//! The tunings of a plain program. A limit is the result of the best tuning, not of the first one.

use std::io::{self, ErrorKind};

use serde::Serialize;

use super::Limit;

/// The method by which a program waits for the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::bmi) enum Wait {
    /// The program sleeps in the system call.
    Block,
    /// The program tries again without a pause: for two cores.
    Spin,
    /// The program yields the CPU to the other process and tries again: for one core.
    Yield,
}

/// One variant of a plain program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tuning {
    pub(in crate::bmi) wait: Wait,
    /// The limit on the bytes of one call of a stream; 0: the whole message.
    pub(in crate::bmi) chunk: usize,
    /// The requested size of a stream's send buffer in bytes; 0: the system's default.
    pub(in crate::bmi) buffer: usize,
    /// The number of messages in one call of a stream.
    pub(in crate::bmi) batch: usize,
}

/// The program without tuning.
pub(super) const PLAIN: Tuning = Tuning {
    wait: Wait::Block,
    chunk: 0,
    buffer: 0,
    batch: 1,
};

/// The size in bytes above which one call carries only one message of a stream.
const BATCHED_MAX: usize = 4096;
/// The pairs of chunk and buffer for a stream: calls that fit the first-level cache, the second-level cache, and no
/// cache; buffers of the default, 1 MiB and 4 MiB, as far as the system permits.
const STREAMS: [(usize, usize); 6] = [
    (0, 0),
    (0, 4 << 20),
    (256 << 10, 1 << 20),
    (256 << 10, 0),
    (64 << 10, 256 << 10),
    (64 << 10, 0),
];

impl Tuning {
    /// Returns all variants of a limit for messages of `bytes` bytes, with `in_flight` of them at a time.
    pub(crate) fn all(limit: Limit, bytes: usize, in_flight: u32, one_core: bool) -> Vec<Self> {
        let restless = if one_core { Wait::Yield } else { Wait::Spin };
        let waits = [Wait::Block, restless].map(|wait| Self { wait, ..PLAIN });
        match limit {
            Limit::Memcpy => vec![PLAIN],
            Limit::UnixStream | Limit::TcpStream if bytes <= BATCHED_MAX => {
                let most = (in_flight as usize).clamp(1, sys::span::PARTS_MAX);
                let batches = [1, most.div_ceil(4), most];
                let of_wait = |tuning: Self| batches.map(|batch| Self { batch, ..tuning });
                waits.into_iter().flat_map(of_wait).collect()
            }
            Limit::UnixStream | Limit::TcpStream => {
                let of_wait = |tuning: Self| {
                    STREAMS.map(|(chunk, buffer)| Self {
                        chunk,
                        buffer,
                        ..tuning
                    })
                };
                let fits = |tuning: &Self| tuning.chunk < bytes;
                waits.into_iter().flat_map(of_wait).filter(fits).collect()
            }
            _ => waits.to_vec(),
        }
    }

    /// Encodes the tuning as three words of a request.
    pub(super) const fn words(self) -> [u64; 3] {
        let wait = match self.wait {
            Wait::Block => 0,
            Wait::Spin => 1,
            Wait::Yield => 2,
        };
        let wait = wait | (self.batch as u64) << 8;
        [wait, self.chunk as u64, self.buffer as u64]
    }

    /// Decodes the tuning from three words of a request.
    pub(super) fn of_words([wait, chunk, buffer]: [u64; 3]) -> anyhow::Result<Self> {
        Ok(Self {
            wait: match wait & 0xFF {
                0 => Wait::Block,
                1 => Wait::Spin,
                2 => Wait::Yield,
                other => anyhow::bail!("a limit that waits in way {other}"),
            },
            chunk: usize::try_from(chunk)?,
            buffer: usize::try_from(buffer)?,
            batch: usize::try_from(wait >> 8)?.max(1),
        })
    }

    /// Returns the limit on the bytes of a call.
    pub(super) const fn most(self) -> usize {
        match self.chunk {
            0 => usize::MAX,
            chunk => chunk,
        }
    }

    /// Repeats a call that would block, with the pause of the tuning. A blocking descriptor never reports that it
    /// would block.
    pub(super) fn insist<T>(self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.pause(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Pauses between two tries.
    pub(super) fn pause(self) {
        match self.wait {
            Wait::Block => {}
            Wait::Spin => std::hint::spin_loop(),
            Wait::Yield => std::thread::yield_now(),
        }
    }

    /// Returns true if descriptors must report that they would block instead of sleeping.
    pub(super) fn tries(self) -> bool {
        self.wait != Wait::Block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_tried_blocking_and_not() {
        for limit in [
            Limit::Queue,
            Limit::QueueAndSocket,
            Limit::UnixStream,
            Limit::Ring,
        ] {
            for (one_core, restless) in [(true, Wait::Yield), (false, Wait::Spin)] {
                let waits: Vec<Wait> = Tuning::all(limit, 1 << 20, 8, one_core)
                    .iter()
                    .map(|tuning| tuning.wait)
                    .collect();
                assert!(waits.contains(&Wait::Block) && waits.contains(&restless));
            }
        }
    }

    #[test]
    fn small_messages_of_a_stream_are_batched_and_large_ones_are_cut() {
        let batched = Tuning::all(Limit::UnixStream, 8, 64, true);
        assert!(batched.iter().any(|tuning| tuning.batch == 64));
        let cut = Tuning::all(Limit::UnixStream, 1 << 20, 8, true);
        assert!(cut.iter().any(|tuning| tuning.chunk == 64 << 10));
        assert!(cut.iter().all(|tuning| tuning.batch == 1));
    }

    #[test]
    fn a_tuning_is_read_as_it_was_written() {
        for tuning in Tuning::all(Limit::TcpStream, 1 << 20, 8, false) {
            assert_eq!(Tuning::of_words(tuning.words()).unwrap(), tuning);
        }
        assert!(Tuning::of_words([9, 0, 0]).is_err());
    }
}
