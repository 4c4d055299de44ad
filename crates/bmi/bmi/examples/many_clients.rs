//! Several clients and a server post all operations first and complete them afterwards. Prints the total
//! bandwidth.
//!
//! ```sh
//! cargo run -p finerail-bmi --example many_clients
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::thread;
use std::time::Instant;

use bmi::{Buffer, Error, Post, Tag};

use common::{LIMIT, next_unexpected};

const CLIENTS: usize = 4;
const MESSAGES: i32 = 50;
const LEN: usize = 1 << 20;

fn main() -> Result<(), Error> {
    let (server, address) = common::server()?;
    let context = server.open_context()?;
    let mut clients = Vec::new();
    let mut pending = 0;
    for _ in 0..CLIENTS {
        let client = common::client(&address)?;
        client.unexpected(Tag(0), b"hello")?;
        let from = next_unexpected(&server)?.from;
        for tag in 0..MESSAGES {
            let room = Buffer::zeroed(LEN)?;
            let post = server.post_receive(context, from, room, Tag(tag), 0)?;
            pending += usize::from(matches!(post, Post::Pending(_)));
        }
        clients.push(client);
    }
    let began = Instant::now();
    let send = |client: common::End| {
        thread::spawn(move || -> Result<(), Error> {
            let posts = (0..MESSAGES).map(|tag| client.post_send(Tag(tag), vec![1; LEN]));
            let posts: Vec<Post> = posts.collect::<Result<_, _>>()?;
            posts
                .into_iter()
                .try_for_each(|post| client.wait_for(post).map(drop))
        })
    };
    let sending: Vec<_> = clients.into_iter().map(send).collect();
    while pending > 0 {
        for done in server.test_context(context, 16, LIMIT)? {
            assert_eq!(done.result?, LEN);
            pending -= 1;
        }
    }
    let bytes = CLIENTS * LEN * MESSAGES as usize;
    println!(
        "{:.2} GB/s",
        bytes as f64 / began.elapsed().as_secs_f64() / 1e9
    );
    sending
        .into_iter()
        .try_for_each(|client| client.join().unwrap())
}
