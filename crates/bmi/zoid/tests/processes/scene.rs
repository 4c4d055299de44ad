//! The processes of one test, and the commands to them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::QueueTurn;
use zoid_proto::Instance;

use crate::party::{ROLE, SETTINGS};

/// The longest wait before a test reports a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A daemon, and where its parties find it.
pub(crate) struct Scene {
    pub(crate) instance: Instance,
    pub(crate) directory: TempDir,
    settings: String,
    pub(crate) daemon: Process,
    _turn: Option<QueueTurn>,
}

impl Scene {
    /// Starts a daemon with these settings. Its heartbeats are so long that a busy machine does not miss
    /// them, unless the settings override that.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Scene {
        Scene::named("", settings)
    }

    pub(crate) fn new() -> Scene {
        Scene::with(&[])
    }

    /// Starts another daemon of the same test, in whose turn the first one was started.
    pub(crate) fn beside(settings: &[(&str, &str)], name: &str) -> Scene {
        Scene::on(name, settings, None, &[])
    }

    fn named(name: &str, settings: &[(&str, &str)]) -> Scene {
        Scene::on(name, settings, Some(QueueTurn::take()), &[])
    }

    /// Starts a daemon under a program.
    pub(crate) fn through(program: &[&str]) -> Scene {
        Scene::on("", &[], Some(QueueTurn::take()), program)
    }

    fn on(
        name: &str,
        settings: &[(&str, &str)],
        turn: Option<QueueTurn>,
        through: &[&str],
    ) -> Scene {
        let program = std::env::current_exe().unwrap();
        let directory = TempDir::new().unwrap();
        Scene::in_directory(directory, (&program, through), name, settings, turn)
    }

    /// Starts a daemon from a copy of this program, as another user; call [`given_back`](Self::given_back) at
    /// the end.
    pub(crate) fn of(
        program: &Path,
        user: u32,
        settings: &[(&str, &str)],
        through: &[&str],
    ) -> Scene {
        let directory = TempDir::new().unwrap();
        chown(directory.path(), Some(user), Some(user)).unwrap();
        Scene::in_directory(
            directory,
            (program, through),
            "",
            settings,
            Some(QueueTurn::take()),
        )
    }

    /// Ends such a daemon and returns its directory to this user.
    pub(crate) fn given_back(mut self) {
        self.daemon.end();
        let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
        let owner = (Some(user.as_raw()), Some(group.as_raw()));
        chown(self.directory.path(), owner.0, owner.1).unwrap();
    }

    fn in_directory(
        directory: TempDir,
        (program, through): (&Path, &[&str]),
        name: &str,
        settings: &[(&str, &str)],
        turn: Option<QueueTurn>,
    ) -> Scene {
        let instance: Instance = format!("p{}{name}", std::process::id()).parse().unwrap();
        let mut all = format!(
            "instance={instance}\ndirectory={}\ntotal=40M\nprefault=off\n\
             heartbeat-ms=60000\n",
            directory.path().display()
        );
        for (name, value) in settings {
            all += &format!("{name}={value}\n");
        }
        let daemon = Process::start_as(program, "daemon", &all, through);
        Scene {
            instance,
            directory,
            settings: all,
            daemon,
            _turn: turn,
        }
    }

    /// Starts another daemon in place of the dead one, without its failpoints.
    pub(crate) fn restart(&mut self) {
        let lines = self.settings.lines();
        let kept: Vec<&str> = lines
            .filter(|line| !line.starts_with("failpoint"))
            .collect();
        self.daemon = Process::start("daemon", &(kept.join("\n") + "\n"), &[]);
    }

    /// The same with a failpoint at which it dies.
    pub(crate) fn restart_to_die_at(&mut self, step: &str) {
        let settings = format!("{}failpoint={step}=kill\n", self.settings);
        self.daemon = Process::begin("daemon", &settings, &[]);
        self.daemon.wait_for_end();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join(self.instance.socket_file())
    }

    pub(crate) fn server(&self) -> Process {
        self.party("server", &self.socket())
    }

    pub(crate) fn client(&self) -> Process {
        self.party("client", &self.socket())
    }

    /// Starts a client that reaches the daemon by another socket.
    pub(crate) fn client_over(&self, socket: &std::path::Path) -> Process {
        self.party("client", socket)
    }

    fn party(&self, role: &str, socket: &std::path::Path) -> Process {
        Process::start(role, &self.party_settings(socket), &[])
    }

    /// Returns the settings of a party of this scene.
    pub(crate) fn party_settings(&self, socket: &std::path::Path) -> String {
        format!("instance={}\nsocket={}\n", self.instance, socket.display())
    }

    /// Starts a server and a client that have exchanged a greeting: each is the other's peer, the client
    /// number 1.
    pub(crate) fn greeted_pair(&self) -> (Process, Process) {
        let (mut server, mut client) = (self.server(), self.client());
        server.take_greeting(&mut client);
        (server, client)
    }

    /// Returns the value of one of the daemon's metrics.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let metrics = zoidd::read_metrics(&self.instance, self.directory.path()).unwrap();
        let found = metrics.iter().find(|metric| metric.name == name);
        found.unwrap_or_else(|| panic!("no metric {name}")).value
    }

    pub(crate) fn until(&self, name: &str, value: f64) {
        eventually(name, || self.metric(name) == value);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.daemon.kill();
        let cleaned = zoidd::cleanup(&self.instance, Some(self.directory.path()));
        if !std::thread::panicking() {
            cleaned.unwrap();
        }
    }
}

/// A party as the test sees it.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    heard: Arc<Heard>,
    asked: u64,
}

/// Answers that have arrived and were not read.
#[derive(Default)]
struct Heard {
    answers: Mutex<(HashMap<u64, String>, bool)>,
    news: Condvar,
}

impl Process {
    /// Starts a party and waits until it is ready; `through` is a program to run it under.
    pub(crate) fn start(role: &str, settings: &str, through: &[&str]) -> Process {
        let program = std::env::current_exe().unwrap();
        Process::start_as(&program, role, settings, through)
    }

    /// The same from a copy of this program.
    pub(crate) fn start_as(
        program: &Path,
        role: &str,
        settings: &str,
        through: &[&str],
    ) -> Process {
        let mut process = Process::begin_as(program, role, settings, through);
        let ready = process.hear(0);
        assert_eq!(ready.as_deref(), Some("ready"), "{role}");
        process.asked = 1;
        process
    }

    /// Returns the error with which a party failed to start.
    pub(crate) fn rejection(role: &str, settings: &str, through: &[&str]) -> String {
        let program = std::env::current_exe().unwrap();
        Process::refusal_of(&program, role, settings, through)
    }

    /// The same from a copy of this program.
    pub(crate) fn refusal_of(
        program: &Path,
        role: &str,
        settings: &str,
        through: &[&str],
    ) -> String {
        let process = Process::begin_as(program, role, settings, through);
        process.hear(0).unwrap_or_else(|| "dead".to_owned())
    }

    /// Starts a party, ready or not.
    pub(crate) fn begin(role: &str, settings: &str, through: &[&str]) -> Process {
        let program = std::env::current_exe().unwrap();
        Process::begin_as(&program, role, settings, through)
    }

    fn begin_as(program: &Path, role: &str, settings: &str, through: &[&str]) -> Process {
        let mut line: Vec<&std::ffi::OsStr> = through.iter().map(|word| word.as_ref()).collect();
        line.push(program.as_os_str());
        let mut child = Command::new(line[0])
            .args(&line[1..])
            .args(["--exact", "a_party_of_the_other_tests", "--nocapture"])
            .env(ROLE, role)
            .env(SETTINGS, settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let heard = Arc::<Heard>::default();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = Arc::clone(&heard);
        std::thread::spawn(move || told.listen(lines));
        Process {
            input: child.stdin.take(),
            child,
            heard,
            asked: 1,
        }
    }

    pub(crate) fn is_ready(&mut self) -> bool {
        self.hear(0).is_some()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command without waiting for the answer.
    pub(crate) fn tell(&mut self, command: &str) -> u64 {
        let number = self.asked;
        self.asked += 1;
        // A dead party does not answer, which its test notices.
        let _dead = writeln!(self.input.as_mut().unwrap(), "{number} {command}");
        number
    }

    /// Waits for the answer to a command; `None` if the party is dead.
    pub(crate) fn hear(&self, number: u64) -> Option<String> {
        let began = Instant::now();
        let mut answers = self.heard.answers.lock().unwrap();
        loop {
            if let Some(answer) = answers.0.remove(&number) {
                return Some(answer);
            }
            if answers.1 {
                return None;
            }
            assert!(began.elapsed() < LIMIT, "no answer to command {number}");
            answers = self.heard.news.wait_timeout(answers, LIMIT).unwrap().0;
        }
    }

    /// Returns whether a command was answered.
    pub(crate) fn has_answered(&self, number: u64) -> bool {
        self.heard.answers.lock().unwrap().0.contains_key(&number)
    }

    /// Sends a command and waits for the answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        let number = self.tell(command);
        let answer = self.hear(number);
        answer.unwrap_or_else(|| panic!("dead instead of: {command}"))
    }

    /// Sends a command whose operation must be pending. Returns its number.
    pub(crate) fn pending(&mut self, command: &str) -> usize {
        let answer = self.ask(command);
        let op = answer.strip_prefix("pending ");
        op.unwrap_or_else(|| panic!("{command}: {answer}"))
            .parse()
            .unwrap()
    }

    /// Collects an operation.
    pub(crate) fn wait(&mut self, op: usize) -> String {
        let answer = self.ask(&format!("test {op} {}", LIMIT.as_millis()));
        answer
            .strip_prefix(&format!("{op} "))
            .unwrap_or(&answer)
            .to_owned()
    }

    /// Posts and waits until the operation completes. Returns its size or error.
    pub(crate) fn finish(&mut self, command: &str) -> String {
        let answer = self.ask(command);
        match answer.split_once(' ') {
            Some(("pending", op)) => self.wait(op.parse().unwrap()),
            Some(("done", len)) => len.to_owned(),
            _ => answer,
        }
    }

    /// Returns a counter of this party.
    pub(crate) fn count(&mut self, name: &str) -> u64 {
        let counts = self.ask("counts");
        let after = counts.split(&format!(" {name}: ")).nth(1);
        let digits = after.unwrap_or_else(|| panic!("no counter {name}"));
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap();
        digits[..end].parse().unwrap()
    }

    /// Waits until a counter is above a value.
    pub(crate) fn until_above(&mut self, name: &str, value: u64) {
        eventually(name, || self.count(name) > value);
    }

    /// Fetches a greeting of a client. Returns the client's number.
    pub(crate) fn take_greeting(&mut self, client: &mut Process) -> usize {
        assert_eq!(client.finish("unexpected 0 5"), "5");
        let got = self.fetch();
        assert_eq!(self.ask("free"), "ok");
        got[0]
    }

    /// Fetches one message: peer, tag, length, place.
    pub(crate) fn fetch(&mut self) -> [usize; 4] {
        let got = self.ask(&format!("fetch 1 {}", LIMIT.as_millis()));
        let words: Vec<&str> = got.split(' ').filter(|word| *word != "at").collect();
        let numbers: Vec<usize> = words.iter().map(|word| word.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }

    /// Sends a signal. After SIGSTOP, waits until the process stands still.
    pub(crate) fn signal(&self, signal: Signal) {
        testkit::process::signal(self.id(), signal);
    }

    /// Returns whether the process is stopped, by a failpoint or otherwise.
    pub(crate) fn is_stopped(&self) -> bool {
        testkit::process::stands_still(self.id())
    }

    /// Waits until a failpoint has stopped it.
    pub(crate) fn until_stopped(&self) {
        eventually("it stops", || self.is_stopped());
    }

    /// Continues the process whenever a failpoint stops it, while `work` runs.
    pub(crate) fn while_it_goes_on(&self, work: impl FnOnce()) {
        let process = Pid::from_raw(i32::try_from(self.id()).unwrap());
        let (done, over) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while over.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout)
                {
                    kill(process, Signal::SIGCONT).unwrap();
                }
            });
            // The thread ends when this is dropped, also by a panic.
            let _done = done;
            work();
        });
    }

    /// Continues the process whenever a failpoint stops it, until a condition holds.
    pub(crate) fn go_on_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        eventually(what, || {
            self.signal(Signal::SIGCONT);
            condition()
        });
    }

    /// Kills the process; nothing is cleaned up.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Ends the process in order.
    pub(crate) fn end(&mut self) {
        self.input = None;
        self.wait_for_end();
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait_for_end(&mut self) {
        if let Ok(handle) = sys::ProcessHandle::open(self.child.id()) {
            assert!(handle.wait(LIMIT).unwrap(), "it does not end");
        }
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Heard {
    fn listen(&self, lines: impl Iterator<Item = std::io::Result<String>>) {
        for line in lines.map_while(Result::ok) {
            let answer = line.split_once(' ');
            let Some((Ok(number), text)) = answer.map(|(n, text)| (n.parse(), text)) else {
                continue;
            };
            let mut answers = self.answers.lock().unwrap();
            answers.0.insert(number, text.to_owned());
            self.news.notify_all();
        }
        self.answers.lock().unwrap().1 = true;
        self.news.notify_all();
    }
}

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LIMIT, "never: {what}");
        std::thread::yield_now();
    }
}

/// Lets time pass in which nothing may happen. A lower limit on time is part of the tested rule.
pub(crate) fn let_pass(time: Duration) {
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    let _never = nothing.recv_timeout(time);
}

/// Returns whether the long suite was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var("FINERAIL_LONG").is_ok_and(|value| value == "1")
}
