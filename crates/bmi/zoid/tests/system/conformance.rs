//! The conformance suite, over each transport of this method.

use crate::bed::Bed;

mod stream {
    use super::*;

    bmi::conformance_tests!(Bed::new());
}

mod tcp {
    use super::*;

    bmi::conformance_tests!(Bed::with(|options| {
        options.listen = Some("127.0.0.1:0".parse().unwrap());
    }));
}

mod client_memory {
    use super::*;

    bmi::conformance_tests!(Bed::with(|options| {
        options.client_memory = zoidd::ClientMemory::On;
    }));
}

mod pipelined_client_memory {
    use super::*;

    bmi::conformance_tests!(
        Bed::with(|options| options.client_memory = zoidd::ClientMemory::On).pipelined()
    );
}

mod credits {
    use super::*;

    bmi::conformance_tests!(Bed::with(|options| options.credits = 2));
}

mod pipelined {
    use super::*;

    bmi::conformance_tests!(Bed::new().pipelined());
}
