//! Consoles of one test node: what commands of one session wait for.

mod common;

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use lnet_selftest::driver::Consoles;

use common::{nid, test_node};

/// A time that no test takes.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn commands_of_a_session_go_on_while_another_one_asks_a_node_that_stands_still() {
    let port = testkit::port();
    let consoles = Consoles::start(test_node(port, "127.0.0.1@tcp")).unwrap();
    // Connections wait in its queue: nobody accepts them.
    let silent = TcpListener::bind(("127.0.0.9", port)).unwrap();
    let target = [nid("127.0.0.9@tcp")];
    let lease = consoles.lease("7").unwrap();
    lease.console().new_session("x", 300, false, 1).unwrap();
    let node = consoles.test_node();
    thread::scope(|scope| {
        let questions = [
            scope.spawn(|| {
                let asked = lease.ask(|console| console.debug_question(&target, LONG));
                asked.map(|answers| answers.len())
            }),
            scope.spawn(|| {
                let asked = lease.ask(|console| console.stat_question(&target, LONG));
                asked.map(|answers| answers.len())
            }),
        ];
        testkit::eventually("both questions are under way", || node.under_way().0 == 2);
        let other = consoles.lease("7").unwrap();
        other.console().add_batch("b").unwrap();
        assert!(other.console().session().unwrap().batch("b").is_ok());
        assert!(questions.iter().all(|question| !question.is_finished()));
        drop(other);
        // The session may even end meanwhile.
        lease.console().end_session().unwrap();
        consoles.close();
        for question in questions {
            assert_eq!(question.join().unwrap().unwrap(), 1);
        }
    });
    drop(silent);
}
