//! Conversion of protocol and system errors to BMI errors.

use std::io;

use bmi::Error;
use zoid_proto::Status;

/// Returns the error of a status; [`Error::Proto`] for a number that is not BMI's.
pub(crate) fn of_status(status: Status) -> Error {
    Error::from_number(status.0).unwrap_or(Error::Proto)
}

/// Returns why a connection that failed with this error is lost.
pub(crate) fn of_lost_connection(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData => Error::Proto,
        io::ErrorKind::TimedOut => Error::TimedOut,
        _ => Error::ConnReset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [FWD-6]
    #[test]
    fn r23_statuses_become_the_errors_of_the_same_name() {
        let pairs = [
            (Status::NO_MEMORY, Error::NoMem),
            (Status::MESSAGE_SIZE, Error::MsgSize),
            (Status::NO_SYSTEM, Error::NoSys),
            (Status::INVALID, Error::Inval),
            (Status::PROTOCOL, Error::Proto),
            (Status::CONNECTION_RESET, Error::ConnReset),
            (Status::NET_RESET, Error::NetReset),
            (Status::BUSY, Error::Busy),
            (Status::CANCELLED, Error::Cancel),
            (Status(-5), Error::Proto),
        ];
        for (status, error) in pairs {
            assert_eq!(of_status(status), error, "{status}");
        }
    }
}
