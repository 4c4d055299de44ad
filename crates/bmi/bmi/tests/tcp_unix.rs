//! The tcp method over Unix-domain sockets: the same behaviour, other addresses.

#![cfg(feature = "conformance")]
#![expect(clippy::unwrap_used, reason = "test code")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bmi::conformance::Bed;
use bmi::tcp::Tcp;
use bmi::{Bmi, Class, Error, Question, Tag};

/// A path of its own for each bed.
struct Unix(PathBuf);

fn bed() -> Unix {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("finerail-bmi.{}.{number}", std::process::id());
    Unix(std::env::temp_dir().join(name))
}

impl Unix {
    fn name(&self) -> String {
        format!("tcp://unix:{}", self.0.display())
    }
}

impl Bed for Unix {
    fn server(&self) -> Bmi {
        let builder = Bmi::builder().method(Tcp::new()).listen(&self.name());
        builder.start().unwrap()
    }

    fn client(&self) -> Bmi {
        Bmi::builder().method(Tcp::new()).start().unwrap()
    }

    fn address(&self, _server: &Bmi) -> String {
        self.name()
    }
}

bmi::conformance_tests!(bed());

// [ADDR-23]
#[test]
fn the_path_is_removed_with_its_server_and_taken_over_from_one_that_was_killed() {
    let unix = bed();
    let server = unix.server();
    assert_eq!(server.get(None, Question::TcpPort), Ok(0));
    // A second server does not take the address away from the first.
    let second = Bmi::builder()
        .method(Tcp::new())
        .listen(&unix.name())
        .start();
    assert_eq!(second.err(), Some(Error::AddrInUse));
    assert!(unix.0.exists());
    drop(server);
    assert!(!unix.0.exists());
    // A killed process leaves a socket file on which nobody listens.
    drop(std::os::unix::net::UnixListener::bind(&unix.0).unwrap());
    assert!(unix.0.exists());
    drop(unix.server());
    // A file that is not a socket is never removed.
    std::fs::write(&unix.0, "precious").unwrap();
    let rejected = Bmi::builder()
        .method(Tcp::new())
        .listen(&unix.name())
        .start();
    assert_eq!(rejected.err(), Some(Error::AddrInUse));
    assert_eq!(std::fs::read_to_string(&unix.0).unwrap(), "precious");
    std::fs::remove_file(&unix.0).unwrap();
}

// [TCP-33]
#[test]
fn a_path_to_which_nobody_listens_is_a_refused_connection() {
    let unix = bed();
    let client = unix.client();
    let context = client.open_context().unwrap();
    let peer = client.lookup(&unix.name()).unwrap();
    let post = client.post_send_unexpected(context, peer, vec![1], Tag(1), Class(0), 0);
    assert_eq!(post.unwrap_err().error, Error::ConnRefused);
}
