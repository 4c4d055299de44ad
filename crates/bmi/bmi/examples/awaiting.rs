//! Awaits operations and unexpected messages. A driver thread tests the context; the futures run in any
//! executor. The executor of this example parks its thread.
//!
//! ```sh
//! cargo run -p finerail-bmi --example awaiting
//! ```

#![expect(clippy::unwrap_used, reason = "an example stops where it fails")]

mod common;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bmi::future::Driver;
use bmi::{Buffer, Class, Error, Tag};

use common::End;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

async fn serve(server: End) -> Result<(), Error> {
    let bmi = Arc::new(server.bmi);
    let driver = Driver::start(Arc::clone(&bmi), server.context)?;
    let request = driver.unexpected(Class(0)).await?;
    let answer: Vec<u8> = request.data.iter().rev().copied().collect();
    let post = bmi.post_send(server.context, request.from, answer, request.tag, 0)?;
    driver.operation(post).await?.result?;
    Ok(())
}

async fn ask(client: End) -> Result<String, Error> {
    let bmi = Arc::new(client.bmi);
    let driver = Driver::start(Arc::clone(&bmi), client.context)?;
    let (context, server, tag) = (client.context, client.peer, Tag(7));
    let answer = bmi.post_receive(context, server, Buffer::zeroed(100)?, tag, 0)?;
    let request = b"desserts".to_vec();
    let request = bmi.post_send_unexpected(context, server, request, tag, Class(0), 0)?;
    driver.operation(request).await?.result?;
    let answer = driver.operation(answer).await?;
    let len = answer.result?;
    Ok(String::from_utf8_lossy(&answer.payload.into_buffer()[..len]).into_owned())
}

fn main() -> Result<(), Error> {
    let (server, client) = common::connected_pair()?;
    let serving = thread::spawn(move || block_on(serve(server)));
    println!("{}", block_on(ask(client))?);
    serving.join().unwrap()
}
