//! Two nodes of one program: one puts a message and reads memory of the other.
//!
//! cargo run -p lnet-node --example put_get

use std::error::Error;

use lnet_node::{Address, Inbox, Initiator, Node, NodeOptions, Window};

fn main() -> Result<(), Box<dyn Error>> {
    let options = || NodeOptions {
        port: 9988, // 988 is LNet's own, which needs root
        ..NodeOptions::default()
    };
    let server = Node::start_on(options(), &["127.0.0.2@tcp".parse()?])?;
    let client = Node::start_on(options(), &["127.0.0.1@tcp".parse()?])?;

    // A portal and match bits name what a target offers, until the inbox and the window are dropped.
    let mut inbox = Inbox::new(&server, 10, 4096)?; // for messages of at most 4096 bytes
    let _window = Window::read_only(&server, 11, 7, &b"memory of the server"[..])?;

    let mut initiator = Initiator::new(&client);
    initiator.put(Address::new(server.primary_nid(), 10, 0), &b"hello"[..])?;
    let message = inbox.next(None)?; // None: without a time limit
    println!(
        "{} says {}",
        message.from,
        String::from_utf8_lossy(&message.data)
    );

    // 6 bytes from offset 14.
    let bytes = initiator.read(Address::new(server.primary_nid(), 11, 7), 14, 6)?;
    println!("and reads {:?}", String::from_utf8_lossy(&bytes));
    Ok(())
}
