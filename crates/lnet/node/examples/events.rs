//! The full interface: descriptors, and their events from a queue, in a thread and in an async task.
//!
//! cargo run -p lnet-node --example events

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use lnet_node::{EventKind, MatchEntry, Md, MdOptions, Node, NodeOptions, PutRequest};
use lnet_types::ProcessId;

fn main() -> Result<(), Box<dyn Error>> {
    let options = || NodeOptions {
        port: 9988,
        ..NodeOptions::default()
    };
    let server = Node::start_on(options(), &["127.0.0.2@tcp".parse()?])?;
    let client = Node::start_on(options(), &["127.0.0.1@tcp".parse()?])?;

    // A target: one descriptor takes all messages, each at the offset that it names.
    let arrivals = server.event_queue();
    let sink = Md::sink(vec![0; 1000]).options(MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE);
    server.attach(&arrivals, MatchEntry::exact(10, 7), sink)?;

    // An initiator: ten operations, a PUT and its ACK each, after which the descriptor goes.
    let departures = client.event_queue();
    let md = client.bind(&departures, Md::source(&b"hello"[..]).threshold(20))?;
    let put = |number: u32| PutRequest {
        md,
        ack: true,
        source: None,
        target: ProcessId::lustre(server.primary_nid()),
        portal: 10,
        match_bits: 7,
        offset: number * 5,
        hdr_data: number.into(),
    };
    client.put_many(&(0..10).map(put).collect::<Vec<_>>())?;

    let acks = thread::spawn(move || {
        let mut acks = 0;
        while let Ok(event) = departures.wait(None) {
            acks += u32::from(event.event.kind == EventKind::Ack);
            if event.event.unlinked {
                break;
            }
        }
        acks
    });
    // `next` runs on any executor; this one is a thread that sleeps.
    for _ in 0..10 {
        let event = block_on(arrivals.next())?.event;
        println!(
            "{} bytes at {}, number {}",
            event.mlength, event.offset, event.hdr_data
        );
    }
    println!("{:?} acknowledgements", acks.join());
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
