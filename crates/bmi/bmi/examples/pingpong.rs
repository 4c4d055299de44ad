//! Measures the round trip of messages from 1 byte to 16 MiB.
//!
//! ```sh
//! cargo run --release -p finerail-bmi --example pingpong
//! ```
//!
//! Both ends are threads with an interface of their own. The client posts its receive before its send, so
//! each message finds its buffer. Prints half of the shortest round trip of each size: the minimum varies
//! least from run to run.

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

use std::thread;
use std::time::{Duration, Instant};

use bmi::tcp::Tcp;
use bmi::{Address, Bmi, Buffer, Class, ContextId, Error, Payload, Post, Question, Tag};

const SIZES: u32 = 25;
const LIMIT: Duration = Duration::from_secs(60);

/// One end of the conversation.
struct End {
    bmi: Bmi,
    context: ContextId,
    peer: Address,
}

impl End {
    /// Waits until the operation completes.
    fn wait_for(&self, post: Post) -> Result<Payload, Error> {
        match post {
            Post::Immediate(_, payload) => Ok(payload),
            Post::Pending(op) => {
                let done = self.bmi.test(op, LIMIT)?.ok_or(Error::TimedOut)?;
                done.result.map(|_| done.payload)
            }
        }
    }

    fn send(&self, payload: Payload) -> Result<Payload, Error> {
        let post = self
            .bmi
            .post_send(self.context, self.peer, payload, Tag(1), 0)?;
        self.wait_for(post)
    }

    fn receive(&self, payload: Payload) -> Result<Post, Error> {
        let post = self
            .bmi
            .post_receive(self.context, self.peer, payload, Tag(1), 0)?;
        Ok(post)
    }
}

fn main() -> Result<(), Error> {
    let listen = Bmi::builder().method(Tcp::new()).listen("tcp://127.0.0.1");
    let server = listen.start()?;
    let port = server.get(None, Question::TcpPort)?;
    let echo = thread::spawn(move || echo(server));
    let client = Bmi::builder().method(Tcp::new()).start()?;
    let end = End {
        context: client.open_context()?,
        peer: client.lookup(&format!("tcp://127.0.0.1:{port}"))?,
        bmi: client,
    };
    // The server learns the client's address from the first message.
    let (bmi, context) = (&end.bmi, end.context);
    end.wait_for(bmi.post_send_unexpected(context, end.peer, vec![0], Tag(0), Class(0), 0)?)?;
    println!("{:>10} {:>12} {:>10}", "bytes", "one way/us", "MB/s");
    for power in 0..SIZES {
        let size = 1 << power;
        let time = (0..rounds(size)).map(|_| exchange(&end, size));
        let least = time.collect::<Result<Vec<_>, _>>()?.into_iter().min();
        let one_way = least.unwrap_or_default().as_secs_f64() / 2.0;
        let rate = size as f64 / one_way / 1e6;
        println!("{size:>10} {:>12.2} {rate:>10.0}", one_way * 1e6);
    }
    drop(end);
    echo.join().unwrap()
}

/// Returns the number of round trips for a size: fewer for larger messages.
fn rounds(size: usize) -> usize {
    (2000 / (1 + size / 4096)).clamp(40, 2000)
}

/// Sends one message and receives it back.
fn exchange(end: &End, size: usize) -> Result<Duration, Error> {
    let (back, there) = (Buffer::zeroed(size)?, Buffer::zeroed(size)?);
    let began = Instant::now();
    let receive = end.receive(back.into())?;
    end.send(there.into())?;
    end.wait_for(receive)?;
    Ok(began.elapsed())
}

/// Sends every message back until the client says goodbye.
fn echo(server: Bmi) -> Result<(), Error> {
    let found = server.test_unexpected(Class(0), 1, LIMIT)?;
    let client = found.first().ok_or(Error::TimedOut)?.from;
    let end = End {
        context: server.open_context()?,
        peer: client,
        bmi: server,
    };
    for power in 0..SIZES {
        let size = 1 << power;
        let mut message = Payload::from(Buffer::zeroed(size)?);
        for _ in 0..rounds(size) {
            message = end.wait_for(end.receive(message)?)?;
            message = end.send(message)?;
        }
    }
    Ok(())
}
