//! The conformance suite over `tcp`.

#![expect(clippy::unwrap_used, reason = "test code")]

use bmi::conformance::Bed;
use bmi::tcp::Tcp;
use bmi::{Bmi, Question};

/// Sockets on this machine; the system chooses the port.
struct Loopback;

impl Bed for Loopback {
    fn server(&self) -> Bmi {
        Bmi::builder()
            .method(Tcp::new())
            .listen("tcp://127.0.0.1:0")
            .bind_specific(true)
            .start()
            .unwrap()
    }

    fn client(&self) -> Bmi {
        Bmi::builder().method(Tcp::new()).start().unwrap()
    }

    fn address(&self, server: &Bmi) -> String {
        let port = server.get(None, Question::TcpPort).unwrap();
        format!("tcp://127.0.0.1:{port}")
    }
}

bmi::conformance_tests!(Loopback);
