//! Tests of the futures over tcp, with a minimal executor.

use std::pin::pin;
use std::task::Wake;
use std::thread::Thread;

use sys::{Readiness, wait_until_ready};

use super::*;
use crate::id::{Address, Tag};
use crate::option::Question;
use crate::payload::Buffer;
use crate::tcp::Tcp;

const LIMIT: Duration = Duration::from_secs(60);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let began = std::time::Instant::now();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(LIMIT),
        }
        assert!(began.elapsed() < LIMIT, "never ready");
    }
}

/// An interface, its context and its driver.
struct End {
    bmi: Arc<Bmi>,
    context: ContextId,
    driver: Driver,
}

impl End {
    fn new(bmi: Bmi) -> End {
        let bmi = Arc::new(bmi);
        let context = bmi.open_context().unwrap();
        End {
            driver: Driver::start(Arc::clone(&bmi), context).unwrap(),
            context,
            bmi,
        }
    }

    fn receive(&self, from: Address, tag: i32) -> Post {
        let room = Buffer::zeroed(100).unwrap();
        self.bmi
            .post_receive(self.context, from, room, Tag(tag), 7)
            .unwrap()
    }

    fn send(&self, to: Address, tag: i32, bytes: &[u8]) -> Operation {
        let post = self
            .bmi
            .post_send(self.context, to, bytes.to_vec(), Tag(tag), 0);
        self.driver.operation(post.unwrap())
    }

    fn ask(&self, to: Address, class: u8) -> Operation {
        let (context, class) = (self.context, Class(class));
        let post = self
            .bmi
            .post_send_unexpected(context, to, vec![1, 2], Tag(1), class, 0);
        self.driver.operation(post.unwrap())
    }
}

/// Starts a server and a client. Returns them and the server's address at the client.
fn connected_pair() -> (End, End, Address) {
    let server = Bmi::builder()
        .method(Tcp::new())
        .listen("tcp://127.0.0.1")
        .start();
    let server = End::new(server.unwrap());
    let client = End::new(Bmi::builder().method(Tcp::new()).start().unwrap());
    let port = server.bmi.get(None, Question::TcpPort).unwrap();
    let address = client
        .bmi
        .lookup(&format!("tcp://127.0.0.1:{port}"))
        .unwrap();
    (server, client, address)
}

#[test]
fn requests_and_answers_are_awaited_in_any_executor() {
    let (server, client, address) = connected_pair();
    let asks = client.ask(address, 0);
    let answer = client.driver.operation(client.receive(address, 1));
    let serves = async {
        let request = server.driver.unexpected(Class(0)).await.unwrap();
        assert_eq!(&*request.data, &[1, 2]);
        server
            .send(request.from, 1, b"answer")
            .await
            .unwrap()
            .result
            .unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(serves));
        block_on(async {
            assert_eq!(asks.await.unwrap().result, Ok(2));
            let answer = answer.await.unwrap();
            assert_eq!(answer.result, Ok(6));
            assert_eq!(&answer.payload.into_buffer()[..6], b"answer");
        });
    });
}

#[test]
fn the_descriptor_is_readable_while_something_is_to_be_collected() {
    let (server, client, address) = connected_pair();
    let Post::Pending(op) = client.receive(address, 1) else {
        panic!("nothing was sent yet");
    };
    let ready = |limit| wait_until_ready(&client.driver, Readiness::Readable, Some(limit)).unwrap();
    assert!(!ready(Duration::ZERO));
    block_on(client.ask(address, 0)).unwrap();
    let request = block_on(server.driver.unexpected(Class(0))).unwrap();
    block_on(server.send(request.from, 1, b"x")).unwrap();
    assert!(ready(LIMIT));
    let done = client.driver.collect();
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].op, done[0].user, &done[0].result), (op, 7, &Ok(1)));
    assert!(!ready(Duration::ZERO));
}

#[test]
fn messages_of_another_class_are_left_for_who_awaits_them() {
    let (server, client, address) = connected_pair();
    block_on(client.ask(address, 3)).unwrap();
    // No test call takes the second message while the first is awaited.
    let first = server.driver.unexpected(Class(0));
    std::thread::scope(|scope| {
        scope.spawn(|| block_on(client.ask(address, 0)).unwrap());
        assert_eq!(&*block_on(first).unwrap().data, &[1, 2]);
    });
    assert_eq!(
        &*block_on(server.driver.unexpected(Class(3))).unwrap().data,
        &[1, 2]
    );
}

#[test]
fn a_message_whose_listener_left_is_the_next_ones() {
    let (server, client, address) = connected_pair();
    let mut left = Box::pin(server.driver.unexpected(Class(0)));
    assert!(
        left.as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    block_on(client.ask(address, 0)).unwrap();
    drop(left);
    assert_eq!(
        &*block_on(server.driver.unexpected(Class(0))).unwrap().data,
        &[1, 2]
    );
}

#[test]
fn the_end_of_the_driver_or_of_the_interface_ends_what_is_awaited() {
    let (server, client, address) = connected_pair();
    let awaited = client.driver.operation(client.receive(address, 1));
    let End { driver, .. } = client;
    drop(driver);
    assert_eq!(block_on(awaited).err(), Some(Error::NetDown));
    let incoming = server.driver.unexpected(Class(0));
    server.bmi.finalize();
    assert_eq!(block_on(incoming).err(), Some(Error::NetDown));
}

#[test]
fn what_is_not_awaited_any_more_is_dropped_when_it_is_done() {
    let (server, client, address) = connected_pair();
    drop(client.driver.operation(client.receive(address, 1)));
    block_on(client.ask(address, 0)).unwrap();
    let request = block_on(server.driver.unexpected(Class(0))).unwrap();
    block_on(server.send(request.from, 1, b"x")).unwrap();
    // A message with another tag arrives after it.
    let last = client.driver.operation(client.receive(address, 2));
    block_on(server.send(request.from, 2, b"y")).unwrap();
    block_on(last).unwrap();
    assert!(client.driver.collect().is_empty());
    assert!(client.driver.shared.lock().dropped.is_empty());
}
