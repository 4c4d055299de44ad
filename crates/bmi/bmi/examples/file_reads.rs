//! A file server. The client sends a short unexpected request, receives an answer, then the data in pieces.
//! The server is one loop over unexpected messages and completed operations; the user value of an operation
//! says which step follows.
//!
//! ```sh
//! cargo run -p finerail-bmi --example file_reads
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use bmi::{Buffer, Class, Error, Post, Tag};

use common::{End, LIMIT};

const READS: i32 = 3;
const PIECES: u64 = 4;
const PIECE: usize = 256 << 10;
const ANSWER: usize = 1600;

/// The tag of the data of a read.
fn data(read: Tag) -> Tag {
    Tag(read.0 + 1000)
}

/// Sends the answer or one piece of the data. `user` holds the number of the read and the step.
fn post(server: &End, read: i32, step: u64) -> Result<Option<(i32, u64)>, Error> {
    let (tag, len) = match step {
        0 => (Tag(read), ANSWER),
        _ => (data(Tag(read)), PIECE),
    };
    let user = step << 32 | u64::from(read.cast_unsigned());
    let post = server.bmi.post_send(
        server.context,
        server.peer,
        vec![step as u8; len],
        tag,
        user,
    )?;
    Ok(matches!(post, Post::Immediate(..)).then_some((read, step)))
}

fn serve(server: &End) -> Result<(), Error> {
    let mut served = 0;
    while served < READS {
        let mut next = VecDeque::new();
        for request in server.bmi.test_unexpected(Class(0), 8, Duration::ZERO)? {
            next.extend(post(server, request.tag.0, 0)?);
        }
        for done in server.bmi.test_context(server.context, 8, LIMIT)? {
            done.result?;
            next.push_back(((done.user & 0xffff_ffff) as i32, done.user >> 32));
        }
        while let Some((read, step)) = next.pop_front() {
            match step == PIECES {
                true => served += 1,
                false => next.extend(post(server, read, step + 1)?),
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let (server, client) = common::connected_pair()?;
    let serving = thread::spawn(move || serve(&server));
    for read in (0..READS).map(Tag) {
        let answer = client.post_receive(read, Buffer::zeroed(ANSWER)?)?;
        let pieces = (0..PIECES).map(|_| client.post_receive(data(read), Buffer::zeroed(PIECE)?));
        let pieces: Vec<Post> = pieces.collect::<Result<_, _>>()?;
        client.unexpected(read, &[0; 25])?;
        client.wait_for(answer)?;
        let mut total = 0;
        for piece in pieces {
            total += client.wait_for(piece)?.0;
        }
        println!("read {}: {total} bytes", read.0);
    }
    serving.join().unwrap()
}
