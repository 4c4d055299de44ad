//! A client asks the server to receive a message and then sends less than the posted receive has room for.
//! The receive completes once, with the number of bytes that arrived.
//!
//! ```sh
//! cargo run -p finerail-bmi --example message_pair
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::thread;

use bmi::{Error, Tag};

use common::next_unexpected;

const REQUEST: Tag = Tag(5);
const DATA: Tag = Tag(7);

fn main() -> Result<(), Error> {
    let (server, client) = common::connected_pair()?;
    let serving = thread::spawn(move || -> Result<usize, Error> {
        let request = next_unexpected(&server.bmi)?;
        let room = u64::from_le_bytes((*request.data).try_into().unwrap()) as usize;
        server.send(REQUEST, b"ok")?;
        Ok(server.receive(DATA, room)?.len())
    });
    client.unexpected(REQUEST, &32_000_u64.to_le_bytes())?;
    assert_eq!(client.receive(REQUEST, 2)?, b"ok");
    client.send(DATA, &[1; 15_000])?;
    let received = serving.join().unwrap()?;
    println!("posted 32000 bytes, received {received}");
    Ok(())
}
