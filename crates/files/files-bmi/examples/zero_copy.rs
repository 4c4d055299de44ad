//! Writes and reads a file through a forwarder in memory of the interface, so that this process copies nothing: the
//! bytes go from this memory to the daemon, or directly into the forwarder's buffer if the daemon permits that.
//!
//! ```console
//! $ finerail zoid daemon &
//! $ finerail zoid forward dir:/srv/scratch &
//! $ cargo run --release -p files-bmi --example zero_copy -- example-file
//! ```

use std::error::Error;
use std::sync::Arc;

use bmi::Bmi;
use files::{Caller, FileSystem, Place};
use files_bmi::{BmiFiles, ClientOptions};
use zoid::{Options, Zoid};

/// Length of the file in bytes.
const LENGTH: usize = 16 << 20;

#[allow(dead_code, reason = "a test runs the rest")]
fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "zero-copy-example".to_owned());
    // Posts must not wait for each other.
    let options = Options {
        pipelined: true,
        ..Options::from_environment()
    };
    let bmi = Arc::new(Bmi::builder().method(Zoid::new(options)).start()?);
    let files = BmiFiles::connect(bmi, "zoid://", ClientOptions::default())?;
    run(&files, &name)?;
    println!(
        "{LENGTH} bytes written and read; {} copied here",
        files.counters().snapshot().copied_bytes
    );
    Ok(())
}

/// Writes a file with this name, reads it back and compares the contents.
pub(crate) fn run(files: &BmiFiles, name: &str) -> Result<(), Box<dyn Error>> {
    let caller = Caller::default();
    let place = Place::from_root(name.as_bytes())?;
    let (entry, _) = files.create(&caller, place, 0o644, false)?;

    // The buffer goes with the call and comes back with its result.
    let mut buffer = files.buffer(LENGTH)?;
    buffer.fill(7);
    let (mut buffer, written) = files.write_buffer(&caller, entry.handle, 0, buffer);
    assert_eq!(written?, LENGTH);

    buffer.fill(0);
    let (buffer, read) = files.read_buffer(&caller, entry.handle, 0, buffer);
    assert_eq!(read?, LENGTH);
    assert!(buffer.iter().all(|&byte| byte == 7));
    Ok(())
}
