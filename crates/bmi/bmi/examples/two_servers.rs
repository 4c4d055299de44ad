//! Two servers listen and look each other up. Each sends one byte to the other.
//!
//! ```sh
//! cargo run -p finerail-bmi --example two_servers
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::thread;

use bmi::{Bmi, Buffer, Error, Tag};

use common::End;

fn talk(bmi: Bmi, other: &str, own: u8) -> Result<u8, Error> {
    let end = End {
        context: bmi.open_context()?,
        peer: bmi.lookup(other)?,
        bmi,
    };
    let receive = end.post_receive(Tag(1), Buffer::zeroed(1)?)?;
    end.send(Tag(1), &[own])?;
    let (_, payload) = end.wait_for(receive)?;
    Ok(payload.into_buffer()[0])
}

fn main() -> Result<(), Error> {
    let (first, first_address) = common::server()?;
    let (second, second_address) = common::server()?;
    let talking = thread::spawn(move || talk(second, &first_address, 2));
    let got = talk(first, &second_address, 1)?;
    println!(
        "the first server received {got}, the second {}",
        talking.join().unwrap()?
    );
    Ok(())
}
