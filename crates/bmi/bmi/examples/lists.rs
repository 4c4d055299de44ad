//! Sends three pieces of memory as one message and receives the message in two halves.
//!
//! ```sh
//! cargo run -p finerail-bmi --example lists
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::thread;

use bmi::{Buffer, Error, Tag};

const KIB: usize = 1024;

fn main() -> Result<(), Error> {
    let (server, client) = common::connected_pair()?;
    let serving = thread::spawn(move || -> Result<Vec<usize>, Error> {
        let halves = vec![Buffer::zeroed(24 * KIB)?, Buffer::zeroed(24 * KIB)?];
        let (len, payload) = server.wait_for(server.post_receive(Tag(1), halves)?)?;
        assert_eq!(len, 48 * KIB);
        let halves = payload.into_buffers();
        let ones = |half: &Buffer| half.iter().filter(|byte| **byte == 1).count();
        Ok(halves.iter().map(ones).collect())
    });
    let pieces = vec![
        Buffer::from(vec![1; 8 * KIB]),
        Buffer::from(vec![2; 16 * KIB]),
        Buffer::from(vec![1; 24 * KIB]),
    ];
    client.wait_for(client.post_send(Tag(1), pieces)?)?;
    let ones = serving.join().unwrap()?;
    println!("bytes of the first and the third piece in each half: {ones:?}");
    Ok(())
}
