//! Answers one HTTP request and closes the connection.
//!
//! ```text
//!  GET /metrics HTTP/1.1 ⏎ fields … ⏎ ⏎     ─▶  200 and the text, which HEAD leaves out
//!  something else at a path                  ─▶  404
//!  another method                            ─▶  405
//!  what is no request                        ─▶  400
//!  more than 8 KiB                           ─▶  431
//!  not all of it within 5 s                  ─▶  nothing
//! ```
//!
//! Bodies and all fields except Accept are ignored. A client that does not ask for OpenMetrics, such as `curl`, gets the
//! older text format of Prometheus, which differs only in details ([`as_text`]) and which more programs read. No client
//! can hold a connection longer than twice [`PATIENCE`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tracing::debug;

/// How long a client may take to send its request, and how long to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest request in bytes.
const REQUEST_MAX: usize = 8 << 10;

/// The most bytes written at once, between two checks of the time.
const PIECE: usize = 64 << 10;

/// The content type of the OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The content type of the older format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The path of the metrics.
const PATH: &str = "/metrics";

/// The answer to a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Metrics { head_only: bool, text: bool },
    Malformed,
    NotFound,
    MethodNotAllowed,
    TooLarge,
}

/// Answers the request of a client. A slow client costs only its own time. `metrics` is called only if the client
/// asks for metrics.
pub(super) fn serve(stream: &TcpStream, metrics: impl FnOnce() -> String) {
    if let Err(error) = answer(stream, metrics) {
        debug!(%error, "a metrics connection ended early");
    }
}

fn answer(stream: &TcpStream, metrics: impl FnOnce() -> String) -> io::Result<()> {
    let verdict = read_request(stream)?
        .as_deref()
        .map_or(Verdict::TooLarge, decide);
    write(stream, &response(verdict, metrics))
}

/// Reads a request up to its empty line; `None` if the request is too long.
fn read_request(mut stream: &TcpStream) -> io::Result<Option<Vec<u8>>> {
    let begun = Instant::now();
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left(begun)?))?;
        match stream.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => request.extend(piece.iter().take(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(request))
}

fn write(mut stream: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    let begun = Instant::now();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(begun)?))?;
        let piece = rest.get(..PIECE).unwrap_or(rest);
        match stream.write(piece) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the rest of a client's time; an error if there is none.
fn left(begun: Instant) -> io::Result<Duration> {
    let left = PATIENCE
        .checked_sub(begun.elapsed())
        .filter(|left| !left.is_zero());
    left.ok_or_else(|| ErrorKind::TimedOut.into())
}

/// Decides about a request by its first line: `METHOD SP TARGET SP HTTP/1.x`.
fn decide(request: &[u8]) -> Verdict {
    let line = request.split(|byte| *byte == b'\r').next();
    let Some(line) = line.and_then(|line| std::str::from_utf8(line).ok()) else {
        return Verdict::Malformed;
    };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Verdict::Malformed;
    };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return Verdict::Malformed;
    }
    let path = target.split('?').next();
    match method {
        "GET" | "HEAD" if path == Some(PATH) => Verdict::Metrics {
            head_only: method == "HEAD",
            text: wants_text(request),
        },
        "GET" | "HEAD" => Verdict::NotFound,
        _ => Verdict::MethodNotAllowed,
    }
}

/// Returns whether no field Accept names OpenMetrics.
fn wants_text(request: &[u8]) -> bool {
    let request = String::from_utf8_lossy(request).to_ascii_lowercase();
    let mut fields = request.lines().skip(1);
    let accepts = fields.find_map(|line| line.strip_prefix("accept:"));
    !accepts.is_some_and(|kinds| kinds.contains("application/openmetrics-text"))
}

/// Translates into the older text format: it has another name for counters' families (with `_total`), no units, and
/// no end mark.
fn as_text(metrics: &str) -> String {
    let mut text = String::with_capacity(metrics.len());
    let mut help = None;
    for line in metrics.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(rest)) => help = Some((name, rest)),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let is_counter = kind == "counter";
                let kind = if kind == "unknown" { "untyped" } else { kind };
                let total = if is_counter { "_total" } else { "" };
                if let Some((name, rest)) = help.take() {
                    text += &format!("# HELP {name}{total} {rest}\n");
                }
                text += &format!("# TYPE {name}{total} {kind}\n");
            }
            (Some("#"), ..) => {}
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

fn response(verdict: Verdict, metrics: impl FnOnce() -> String) -> Vec<u8> {
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match verdict {
        Verdict::Metrics { text: true, .. } => ("200 OK", TEXT, as_text(&metrics())),
        Verdict::Metrics { text: false, .. } => ("200 OK", OPENMETRICS, metrics()),
        Verdict::Malformed => (
            "400 Bad Request",
            plain,
            "this is not an HTTP request\n".to_owned(),
        ),
        Verdict::NotFound => (
            "404 Not Found",
            plain,
            format!("the metrics are at {PATH}\n"),
        ),
        Verdict::MethodNotAllowed => (
            "405 Method Not Allowed\r\nAllow: GET, HEAD",
            plain,
            "metrics are read-only\n".to_owned(),
        ),
        Verdict::TooLarge => (
            "431 Request Header Fields Too Large",
            plain,
            format!("a request has at most {REQUEST_MAX} bytes\n"),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    match verdict {
        Verdict::Metrics {
            head_only: true, ..
        } => head.into_bytes(),
        _ => (head + &body).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_judged_by_its_first_line() {
        let verdict = |line: &str| decide(format!("{line}\r\nHost: a\r\n\r\n").as_bytes());
        let metrics = |head_only| Verdict::Metrics {
            head_only,
            text: true,
        };
        assert_eq!(verdict("GET /metrics HTTP/1.1"), metrics(false));
        assert_eq!(verdict("GET /metrics?a=b HTTP/1.0"), metrics(false));
        assert_eq!(verdict("HEAD /metrics HTTP/1.1"), metrics(true));
        assert_eq!(verdict("GET / HTTP/1.1"), Verdict::NotFound);
        assert_eq!(verdict("HEAD /metricsx HTTP/1.1"), Verdict::NotFound);
        assert_eq!(verdict("POST /metrics HTTP/1.1"), Verdict::MethodNotAllowed);
        assert_eq!(verdict("GET /metrics"), Verdict::Malformed);
        assert_eq!(verdict("GET /metrics HTTP/2.0"), Verdict::Malformed);
        assert_eq!(verdict("GET metrics HTTP/1.1"), Verdict::Malformed);
        assert_eq!(verdict(""), Verdict::Malformed);
    }

    #[test]
    fn who_does_not_ask_for_openmetrics_gets_the_older_format() {
        let verdict = |accept: &str| {
            decide(format!("GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n").as_bytes())
        };
        let metrics = |text| Verdict::Metrics {
            head_only: false,
            text,
        };
        assert_eq!(verdict("text/plain"), metrics(true));
        assert_eq!(
            verdict("text/plain;version=0.0.4;q=1,*/*;q=0.1"),
            metrics(true)
        );
        let both = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        assert_eq!(verdict(both), metrics(false));
        assert_eq!(verdict("*/*"), metrics(true));
        let open = "\
# HELP a_seconds Time.
# TYPE a_seconds counter
# UNIT a_seconds seconds
a_seconds_total{b=\"c\"} 3
# HELP d Sizes.
# TYPE d histogram
d_bucket{le=\"+Inf\"} 1
d_sum 1
d_count 1
# EOF
";
        let text = "\
# HELP a_seconds_total Time.
# TYPE a_seconds_total counter
a_seconds_total{b=\"c\"} 3
# HELP d Sizes.
# TYPE d histogram
d_bucket{le=\"+Inf\"} 1
d_sum 1
d_count 1
";
        assert_eq!(as_text(open), text);
    }

    proptest! {
        #[test]
        fn any_bytes_get_a_complete_answer(request in proptest::collection::vec(any::<u8>(), 0..200)) {
            let answer = response(decide(&request), || "text".to_owned());
            prop_assert!(answer.starts_with(b"HTTP/1.1 "));
            prop_assert!(answer.windows(4).any(|end| end == b"\r\n\r\n"));
        }
    }
}
