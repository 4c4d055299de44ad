//! Forms of addresses: without a port, with a path, in lists, with names that cannot be resolved yet.

#![expect(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use bmi::tcp::Tcp;
use bmi::{Bmi, Class, Error, Post, Question, Rejected, Tag};

const LIMIT: Duration = Duration::from_secs(30);

fn server(listen: &str) -> Result<Bmi, Error> {
    Bmi::builder().method(Tcp::new()).listen(listen).start()
}

fn port(server: &Bmi) -> u64 {
    server.get(None, Question::TcpPort).unwrap()
}

fn client() -> Bmi {
    Bmi::builder().method(Tcp::new()).start().unwrap()
}

/// Sends a message to an address and has the server receive it.
fn reaches(client: &Bmi, address: &str, server: &Bmi) {
    let context = client.open_context().unwrap();
    let peer = client.lookup(address).unwrap();
    let post = client.post_send_unexpected(context, peer, vec![7; 4], Tag(1), Class(0), 0);
    if let Post::Pending(op) = post.unwrap() {
        let sent = client.test(op, LIMIT).unwrap().unwrap();
        assert_eq!(sent.result, Ok(4), "{address}");
    }
    let found = server.test_unexpected(Class(0), 1, LIMIT).unwrap();
    assert_eq!(&*found[0].data, [7; 4], "{address}");
    client.close_context(context);
}

// [ADDR-20]
#[test]
fn a_server_without_a_port_listens_on_one_that_the_system_picks() {
    let server = server("tcp://127.0.0.1").unwrap();
    assert_ne!(port(&server), 0);
    reaches(
        &client(),
        &format!("tcp://127.0.0.1:{}", port(&server)),
        &server,
    );
}

// [ADDR-21]
#[test]
fn addresses_of_version_6_and_those_with_a_path_are_understood() {
    let server = match server("tcp://[::1]:0/pvfs2-fs") {
        Ok(server) => server,
        Err(error) => return println!("skipped: no addresses of version 6 here ({error})"),
    };
    let port = port(&server);
    let client = client();
    for address in [
        format!("tcp://[::1]:{port}"),
        format!("tcp://[::1]:{port}/pvfs2-fs"),
    ] {
        reaches(&client, &address, &server);
    }
}

// [ADDR-24]
#[test]
fn a_server_listens_whatever_host_its_address_names() {
    // OrangeFS's programs write NULL; the names of other hosts are those of an alias or of tomorrow.
    for host in ["NULL", "no.such.host.invalid", "localhost", "192.0.2.1"] {
        let server = server(&format!("tcp://{host}:0")).unwrap();
        let port = port(&server);
        reaches(&client(), &format!("tcp://127.0.0.1:{port}"), &server);
    }
    let specific = Bmi::builder().method(Tcp::new()).bind_specific(true);
    let started = specific.listen("tcp://no.such.host.invalid:0").start();
    assert_eq!(started.err(), Some(Error::HostNtFd));
}

// [TCP-3]
#[test]
fn a_peer_of_version_4_is_known_by_its_own_address() {
    let server = server("tcp://NULL:0").unwrap();
    let other = self::server("tcp://127.0.0.1:0").unwrap();
    let own = format!("tcp://127.0.0.1:{}", port(&other));
    let known = server.lookup(&own).unwrap();
    let context = other.open_context().unwrap();
    let to = format!("tcp://127.0.0.1:{}", port(&server));
    let to = other.lookup(&to).unwrap();
    let post = other.post_send_unexpected(context, to, vec![7; 4], Tag(1), Class(0), 0);
    if let Post::Pending(op) = post.unwrap() {
        assert!(other.test(op, LIMIT).unwrap().is_some());
    }
    let found = server.test_unexpected(Class(0), 1, LIMIT).unwrap();
    assert_eq!(found[0].from, known);
}

// [ADDR-4]
#[test]
fn of_a_list_the_first_address_counts_whose_method_there_is() {
    let server = server("ib://127.0.0.1:3335,tcp://127.0.0.1:0").unwrap();
    let client = client();
    let own = format!("tcp://127.0.0.1:{}", port(&server));
    for list in [
        format!("{own},ib://node:3335"),
        format!("ib://node:3335/fs,{own}/fs"),
    ] {
        reaches(&client, &list, &server);
        let address = client.lookup(&list).unwrap();
        assert_eq!(address, client.lookup(&own).unwrap());
    }
}

// [ADDR-3]
#[test]
fn an_unknown_scheme_is_an_unknown_protocol_and_no_scheme_is_no_address() {
    let client = client();
    for (address, error) in [
        ("gm://node:1", Error::NoProtoOpt),
        ("gm://node:1,ib://node:2", Error::NoProtoOpt),
        ("TCP://node:1", Error::Inval),
        ("node:1", Error::Inval),
        ("", Error::Inval),
    ] {
        assert_eq!(client.lookup(address), Err(error), "{address}");
    }
    assert_eq!(server("gm://node:1").err(), Some(Error::Inval));
}

// [ADDR-25]
#[test]
fn a_name_that_nobody_knows_yet_is_an_address_whose_posts_fail_until_somebody_does() {
    let client = client();
    let context = client.open_context().unwrap();
    let name = "tcp://no.such.host.invalid:3334";
    let peer = client.lookup(name).unwrap();
    assert_eq!(client.lookup(name), Ok(peer));
    assert_eq!(client.peer_name(peer).as_deref(), Some(name));
    let post = client.post_send_unexpected(context, peer, vec![1], Tag(1), Class(0), 0);
    assert!(matches!(
        post,
        Err(Rejected {
            error: Error::HostNtFd,
            ..
        })
    ));
    let post = client.post_receive(context, peer, vec![0; 1], Tag(1), 0);
    assert!(matches!(
        post,
        Err(Rejected {
            error: Error::HostNtFd,
            ..
        })
    ));
}
