//! Bulk from several places of memory, without a copy: each goes to its offset of the target's window.
//!
//! cargo run -p lnet-node --example segments

use std::error::Error;

use lnet_node::{Address, Initiator, Node, NodeOptions, Window};

fn main() -> Result<(), Box<dyn Error>> {
    let options = || NodeOptions {
        port: 9988,
        ..NodeOptions::default()
    };
    let server = Node::start_on(options(), &["127.0.0.2@tcp".parse()?])?;
    let client = Node::start_on(options(), &["127.0.0.1@tcp".parse()?])?;

    // Three arrays of a program, as a matrix in pieces would be.
    let segments = [vec![1_u8; 3 << 20], vec![2; 1 << 20], vec![3; 100]];
    let whole: usize = segments.iter().map(Vec::len).sum();
    let mut window = Window::writable(&server, 10, 7, vec![0; whole])?;

    let to = Address::new(server.primary_nid(), 10, 7);
    let mut initiator = Initiator::new(&client);
    let mut offset = 0;
    for segment in segments {
        let length = segment.len() as u32;
        initiator.write(to, offset, segment)?; // messages of 1 MiB, 16 under way
        offset += length;
    }

    let first = window.next(None)?;
    println!(
        "{} wrote {} bytes at {} first",
        first.from, first.length, first.offset
    );
    let memory = window.close()?;
    println!("{} bytes, the last is {:?}", memory.len(), memory.last());
    Ok(())
}
