//! Messages of one tag are received in the order of their sends, whether they come before their receives or after
//! them. Different tags do not wait for each other.
//!
//! ```sh
//! cargo run -p bmi --example order
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::thread;
use std::time::Duration;

use bmi::{Buffer, Error, Tag};

const DATA: Tag = Tag(9);
const READY: Tag = Tag(10);

fn main() -> Result<(), Error> {
    let (server, client) = common::meet()?;
    let sending = thread::spawn(move || -> Result<(), Error> {
        let early = client.post_send(DATA, b"first ".to_vec())?;
        client.receive(READY, 0)?;
        let late = client.post_send(DATA, b"second".to_vec())?;
        client.finish(early)?;
        client.finish(late)?;
        Ok(())
    });
    // The first message may be here. Nobody has asked for it, so nothing is done.
    let done = server
        .bmi
        .test_context(server.context, 1, Duration::from_millis(20))?;
    assert!(done.is_empty());
    let mut posts = Vec::new();
    for _ in 0..2 {
        posts.push(server.post_receive(DATA, Buffer::zeroed(6)?)?);
    }
    server.send(READY, b"")?;
    for post in posts {
        let (len, payload) = server.finish(post)?;
        let bytes = payload.into_buffer();
        println!("{}", String::from_utf8_lossy(&bytes[..len]));
    }
    sending.join().unwrap()
}
