//! Measures the speed of files through client, daemon, forwarder and directory, and the speed of each of these hops
//! alone, in separate processes and in the same rounds. Prints ratios to the slowest hop.
//!
//! ```console
//! $ cargo run --release -p files-bmi --example speed -- [DIRECTORY]
//! ```
//!
//! The default directory is `/dev/shm`, so that a disk does not decide the result.

#![expect(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bmi::{Address, Bmi, Buffer, Class, ContextId, Post, Tag};
use files::dir::LocalDirectory;
use files::{Caller, FileSystem, Handle, Place};
use files_bmi::{BmiFiles, ClientOptions, Forwarder, ForwarderOptions};
use zoid::Zoid;

const FILE: usize = 256 << 20;
const CALL: usize = 16 << 20;
const PIECE: usize = 1 << 20;
const ROUNDS: usize = 5;
const WAIT: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().skip(1).map(String::as_str).collect();
    match words[..] {
        ["daemon", directory, instance] => daemon(directory, instance),
        ["forward", directory, instance, export] => forward(directory, instance, export),
        ["sink", directory, instance] => sink(directory, instance),
        [directory] => measure(directory),
        _ => measure("/dev/shm"),
    }
}

/// A child process of this program in one role, which ends together with this process.
struct Role(Child);

impl Role {
    fn start(words: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert_eq!(ready, "ready\n", "{words:?}");
        Self(child)
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}

/// Prints that the process is ready, and waits for the end of standard input.
fn until_over() {
    println!("ready");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn daemon(directory: &str, instance: &str) {
    let daemon = zoidd::Daemon::open(zoidd::Options {
        instance: instance.parse().unwrap(),
        directory: Some(PathBuf::from(directory)),
        socket: Some(Path::new(directory).join("socket")),
        total: 256 << 20,
        ..zoidd::Options::default()
    });
    let daemon = daemon.unwrap();
    let stopper = daemon.stopper();
    let running = std::thread::spawn(move || daemon.run().unwrap());
    until_over();
    stopper.stop();
    running.join().unwrap();
}

fn options(directory: &str, instance: &str) -> zoid::Options {
    zoid::Options {
        instance: instance.parse().unwrap(),
        socket: Some(Path::new(directory).join("socket")),
        pipelined: true,
        ..zoid::Options::from_environment()
    }
}

fn forward(directory: &str, instance: &str, export: &str) {
    let method = Zoid::new(options(directory, instance));
    let bmi = Arc::new(
        Bmi::builder()
            .method(method)
            .listen("zoid://")
            .start()
            .unwrap(),
    );
    let files = LocalDirectory::open(Path::new(export), files::dir::Options::default()).unwrap();
    let forwarder = Forwarder::start(
        Arc::clone(&bmi),
        Arc::new(files),
        ForwarderOptions::default(),
    );
    let forwarder = forwarder.unwrap();
    until_over();
    eprintln!("forwarder: {:?}", forwarder.counters().snapshot());
    drop(forwarder);
    bmi.finalize();
}

/// Receives and sends as many pieces as each request specifies, in memory of the segment.
fn sink(directory: &str, instance: &str) {
    let method = Zoid::new(options(directory, instance));
    let bmi = Bmi::builder()
        .method(method)
        .listen("zoid://")
        .start()
        .unwrap();
    let context = bmi.open_context().unwrap();
    let over = std::thread::spawn(until_over);
    let mut spare = Vec::new();
    while !over.is_finished() {
        for request in bmi
            .test_unexpected(Class(0), 1, Duration::from_millis(100))
            .unwrap()
        {
            let receives = request.data[0] == 1;
            while spare.len() < WINDOW {
                spare.push(bmi.allocate(request.from, PIECE).unwrap());
            }
            let post = |buffer: Buffer| match receives {
                true => bmi
                    .post_receive(context, request.from, buffer, request.tag, 0)
                    .unwrap(),
                false => bmi
                    .post_send(context, request.from, buffer, request.tag, 0)
                    .unwrap(),
            };
            pump(&bmi, context, &mut spare, post);
        }
    }
    bmi.finalize();
}

/// Messages in flight at the same time, as in an exchange of the forwarder.
const WINDOW: usize = 2;

/// Moves as many pieces as a file has.
fn pump(bmi: &Bmi, context: ContextId, spare: &mut Vec<Buffer>, post: impl Fn(Buffer) -> Post) {
    let (mut posted, mut done) = (0, 0);
    while done < FILE / PIECE {
        while posted < FILE / PIECE
            && let Some(buffer) = spare.pop()
        {
            posted += 1;
            if let Post::Immediate(_, payload) = post(buffer) {
                spare.push(payload.into_buffer());
                done += 1;
            }
        }
        for completion in bmi.test_context(context, WINDOW, WAIT).unwrap() {
            completion.result.unwrap();
            spare.push(completion.payload.into_buffer());
            done += 1;
        }
    }
}

/// Measures the raw messages of a client, in GB/s.
fn raw(bmi: &Bmi, context: ContextId, to: Address, tag: i32, sends: bool) -> f64 {
    let mut spare: Vec<Buffer> = (0..WINDOW)
        .map(|_| Buffer::zeroed(PIECE).unwrap())
        .collect();
    let begun = Instant::now();
    let request = vec![u8::from(sends)];
    let asked = bmi
        .post_send_unexpected(context, to, request, Tag(tag), Class(0), 0)
        .unwrap();
    if let Post::Pending(op) = asked {
        bmi.test(op, WAIT).unwrap().unwrap().result.unwrap();
    }
    let post = |buffer: Buffer| match sends {
        true => bmi.post_send(context, to, buffer, Tag(tag), 0).unwrap(),
        false => bmi.post_receive(context, to, buffer, Tag(tag), 0).unwrap(),
    };
    pump(bmi, context, &mut spare, post);
    FILE as f64 / begun.elapsed().as_secs_f64() / 1e9
}

/// Returns the rate of large calls over a whole file, in GB/s.
fn rate(mut call: impl FnMut(u64)) -> f64 {
    let begun = Instant::now();
    for offset in (0..FILE).step_by(CALL) {
        call(offset as u64);
    }
    FILE as f64 / begun.elapsed().as_secs_f64() / 1e9
}

struct Row {
    name: &'static str,
    rates: Vec<f64>,
}

impl Row {
    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

fn add(rows: &mut Vec<Row>, name: &'static str, rate: f64) {
    match rows.iter_mut().find(|row| row.name == name) {
        Some(row) => row.rates.push(rate),
        None => rows.push(Row {
            name,
            rates: vec![rate],
        }),
    }
}

fn measure(directory: &str) {
    let export = tempfile::tempdir_in(directory).unwrap();
    let export_path = export.path().to_str().unwrap();
    let mut rows = Vec::new();
    for round in 0..ROUNDS {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().to_str().unwrap();
        let instance = format!("speed{}-{round}", std::process::id());
        let _daemon = Role::start(&["daemon", path, &instance]);
        let bmi = || {
            let method = Zoid::new(options(path, &instance));
            Arc::new(Bmi::builder().method(method).start().unwrap())
        };
        directory_alone(export.path(), &mut rows);
        {
            let _sink = Role::start(&["sink", path, &instance]);
            let bmi = bmi();
            let context = bmi.open_context().unwrap();
            let to = bmi.lookup("zoid://").unwrap();
            bmi.set(
                Some(to),
                &bmi::Setting::PostTimeout(Duration::from_secs(3600)),
            )
            .unwrap();
            raw(&bmi, context, to, 1, true);
            add(
                &mut rows,
                "write, BMI alone",
                raw(&bmi, context, to, 2, true),
            );
            raw(&bmi, context, to, 3, false);
            add(
                &mut rows,
                "read, BMI alone",
                raw(&bmi, context, to, 4, false),
            );
        }
        let _forwarder = Role::start(&["forward", path, &instance, export_path]);
        through(
            &BmiFiles::connect(bmi(), "zoid://", ClientOptions::default()).unwrap(),
            &mut rows,
        );
    }
    report(&rows);
}

fn directory_alone(path: &Path, rows: &mut Vec<Row>) {
    let files = LocalDirectory::open(path, files::dir::Options::default()).unwrap();
    let (file, caller) = (made(&files), Caller::default());
    let mut bytes = vec![7; CALL];
    let write = || rate(|offset| assert_eq!(files.write(&caller, file, offset, &bytes), Ok(CALL)));
    write();
    add(rows, "write, directory alone", write());
    let read = rate(|offset| assert_eq!(files.read(&caller, file, offset, &mut bytes), Ok(CALL)));
    add(rows, "read, directory alone", read);
}

fn made(files: &dyn FileSystem) -> Handle {
    let place = Place::from_root(b"speed").unwrap();
    files
        .create(&Caller::default(), place, 0o644, false)
        .unwrap()
        .0
        .handle
}

fn through(files: &BmiFiles, rows: &mut Vec<Row>) {
    let (file, caller) = (made(files), Caller::default());
    let mut bytes = vec![7; CALL];
    let write = || rate(|offset| assert_eq!(files.write(&caller, file, offset, &bytes), Ok(CALL)));
    write();
    add(rows, "write, all hops", write());
    let mut read =
        || rate(|offset| assert_eq!(files.read(&caller, file, offset, &mut bytes), Ok(CALL)));
    read();
    add(rows, "read, all hops", read());
    let mut buffer = Some(files.buffer(CALL).unwrap());
    let mut write = |offset| {
        let (back, written) = files.write_buffer(&caller, file, offset, buffer.take().unwrap());
        assert_eq!(written, Ok(CALL));
        buffer = Some(back);
    };
    rate(&mut write);
    add(
        rows,
        "write, all hops, without copies here",
        rate(&mut write),
    );
    let mut read = |offset| {
        let (back, read) = files.read_buffer(&caller, file, offset, buffer.take().unwrap());
        assert_eq!(read, Ok(CALL));
        buffer = Some(back);
    };
    rate(&mut read);
    add(rows, "read, all hops, without copies here", rate(&mut read));
    small(files, file, rows);
}

/// Measures small operations: their number per second, and messages for each.
fn small(files: &BmiFiles, file: Handle, rows: &mut Vec<Row>) {
    const COUNT: u32 = 2000;
    let caller = Caller::default();
    let bytes = [7; 4096];
    let mut time = |name, call: &mut dyn FnMut(u64)| {
        let before = files.counters().snapshot().messages;
        let begun = Instant::now();
        for number in 0..COUNT {
            call(u64::from(number) * 40_960 % (FILE as u64 / 2));
        }
        add(rows, name, f64::from(COUNT) / begun.elapsed().as_secs_f64());
        assert_eq!(
            files.counters().snapshot().messages - before,
            2 * u64::from(COUNT),
            "{name}"
        );
    };
    time("getattr, a second", &mut |_| {
        assert!(files.getattr(&caller, file).is_ok())
    });
    time("write of 4 KiB, a second", &mut |at| {
        assert_eq!(files.write(&caller, file, at, &bytes), Ok(4096))
    });
    let mut bytes = bytes;
    time("read of 4 KiB, a second", &mut |at| {
        assert_eq!(files.read(&caller, file, at, &mut bytes), Ok(4096))
    });
}

fn report(rows: &[Row]) {
    let median = |name: &str| {
        rows.iter()
            .find(|row| row.name == name)
            .map(Row::median)
            .unwrap()
    };
    for row in rows {
        let kind = row.name.split(',').next().unwrap();
        let ratio = match row.name.contains("all hops") {
            true => {
                let slowest = median(&format!("{kind}, BMI alone"))
                    .min(median(&format!("{kind}, directory alone")));
                format!("{:.2} of the slowest hop", row.median() / slowest)
            }
            false => String::new(),
        };
        println!("{:<40} {:>9.2}  {ratio}", row.name, row.median());
    }
}
