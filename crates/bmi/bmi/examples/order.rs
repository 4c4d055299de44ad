//! Messages of one tag are received in the order in which they were sent, whether a message arrives before or
//! after its receive is posted. Messages of different tags do not wait for each other.
//!
//! ```sh
//! cargo run -p finerail-bmi --example order
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::thread;
use std::time::Duration;

use bmi::{Buffer, Error, Tag};

const DATA: Tag = Tag(9);
const READY: Tag = Tag(10);

fn main() -> Result<(), Error> {
    let (server, client) = common::connected_pair()?;
    let sending = thread::spawn(move || -> Result<(), Error> {
        let early = client.post_send(DATA, b"first ".to_vec())?;
        client.receive(READY, 0)?;
        let late = client.post_send(DATA, b"second".to_vec())?;
        client.wait_for(early)?;
        client.wait_for(late)?;
        Ok(())
    });
    // The first message may have arrived. No receive is posted for it, so no operation completes.
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
        let (len, payload) = server.wait_for(post)?;
        let bytes = payload.into_buffer();
        println!("{}", String::from_utf8_lossy(&bytes[..len]));
    }
    sending.join().unwrap()
}
