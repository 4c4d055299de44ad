//! One client and several I/O nodes.

use bmi::{Address, Bmi, Class, Error, Post, Tag};
use zoid::{Options, Zoid};
use zoidd::{Daemon, Stopper};

use crate::bed::{Bed, LIMIT};

/// A daemon that clients find by its name alone.
struct Node {
    options: zoidd::Options,
    stopper: Stopper,
    running: Option<std::thread::JoinHandle<()>>,
}

impl Node {
    fn start(name: &str) -> Node {
        let options = zoidd::Options {
            instance: format!("n{}{name}", std::process::id()).parse().unwrap(),
            total: 8 << 20,
            heartbeat: LIMIT,
            ..zoidd::Options::default()
        };
        let daemon = Daemon::open(options.clone()).unwrap();
        Node {
            options,
            stopper: daemon.stopper(),
            running: Some(std::thread::spawn(move || daemon.run().unwrap())),
        }
    }

    fn address(&self) -> String {
        format!("zoid://{}", self.options.instance)
    }

    fn server(&self) -> Bmi {
        let options = Options {
            instance: self.options.instance.clone(),
            ..Options::default()
        };
        let server = Bmi::builder().method(Zoid::new(options)).listen("zoid://");
        server.start().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(running) = self.running.take() {
            // A daemon that failed has printed the reason on its thread.
            let _failed = running.join();
        }
    }
}

/// Starts a client that may use `nodes` besides its own daemon, with or without the extension.
fn client(bed: &Bed, nodes: &[Node], extended_addresses: bool) -> Bmi {
    let zoid = Zoid::new(Options {
        io_nodes: nodes
            .iter()
            .map(|node| node.options.instance.clone())
            .collect(),
        extended_addresses,
        ..bed.options()
    });
    let nodes = zoid.io_nodes();
    let builder = nodes.fold(Bmi::builder().method(zoid), bmi::Builder::method);
    builder.start().unwrap()
}

// [ADDR-12]
#[test]
fn one_client_talks_to_several_io_nodes_at_the_same_time() {
    let bed = Bed::new();
    let nodes = [Node::start("a"), Node::start("b")];
    let own = bed.serve();
    let servers = [&own.bmi, &nodes[0].server(), &nodes[1].server()];
    let client = client(&bed, &nodes, true);
    let context = client.open_context().unwrap();
    let names = ["zoid://".to_owned(), nodes[0].address(), nodes[1].address()];
    let addresses: Vec<Address> = names
        .iter()
        .map(|name| client.lookup(name).unwrap())
        .collect();
    // The receives of all three answers are posted before any answer is sent.
    let mut answers = Vec::new();
    for (number, &to) in (0..).zip(&addresses) {
        let room = vec![0; 4];
        let post = client
            .post_receive(context, to, room, Tag(7), number as u64)
            .unwrap();
        assert!(matches!(post, Post::Pending(_)));
        let post = client.post_send_unexpected(context, to, vec![number], Tag(7), Class(0), 9);
        answers.push(post.unwrap());
    }
    std::thread::scope(|scope| {
        for (number, server) in (0..).zip(servers) {
            scope.spawn(move || {
                let request = server
                    .test_unexpected(Class(0), 1, LIMIT)
                    .unwrap()
                    .remove(0);
                assert_eq!(&*request.data, &[number]);
                let context = server.open_context().unwrap();
                let answer = vec![number; 4];
                let post = server.post_send(context, request.from, answer, Tag(7), 0);
                if let Post::Pending(op) = post.unwrap() {
                    assert_eq!(server.test(op, LIMIT).unwrap().unwrap().result, Ok(4));
                }
            });
        }
        let mut seen = Vec::new();
        while seen.len() < 3 {
            for done in client.test_context(context, 8, LIMIT).unwrap() {
                assert_eq!(done.result, Ok(4));
                assert_eq!(done.payload.into_buffer()[0], done.user as u8);
                seen.push(done.user);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    });
}

// [ADDR-11]
#[test]
fn without_the_switch_there_is_one_io_node() {
    let bed = Bed::new();
    let nodes = [Node::start("c")];
    let client = client(&bed, &nodes, false);
    client.lookup("zoid://").unwrap();
    assert_eq!(client.lookup(&nodes[0].address()), Err(Error::Inval));
}
