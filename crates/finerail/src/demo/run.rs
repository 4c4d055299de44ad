//! The course of the demo: set up, work while parts fail, verify.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use fgr::config::NodeRole;
use sys::ReservedPort;

use super::cast::{Cast, Service, Stage, this_program};
use super::compute::{Compute, Manifest, Tally};
use super::data::{self, Amount, Digests};
use super::faults::{Fault, FaultKind, Striker};
use super::limit;
use super::outcome::{Explanation, FaultOutcome, Outcome, Verified};
use super::plan::{Addresses, IO_NODE, Plan};
use super::watch::{self, Track, Watched};
use super::world::World;
use super::{DemoArgs, page, print, with_bar};

/// The interval at which the live line is drawn.
const LIVE: Duration = Duration::from_millis(200);

/// How long the work lasts, and how much data it carries.
struct Size {
    work: Duration,
    data: data::Plan,
}

impl Size {
    fn of(args: &DemoArgs) -> Self {
        if args.quick {
            return Self {
                work: Duration::from_secs(11),
                data: data::Plan {
                    small_files: 200,
                    large_bytes: 32 << 20,
                },
            };
        }
        Self {
            work: Duration::from_secs(48),
            data: data::Plan {
                small_files: 1000,
                large_bytes: 128 << 20,
            },
        }
    }
}

/// Runs the demo in `directory`.
pub(super) fn run(
    args: &DemoArgs,
    directory: &Path,
    mut world: World,
    interrupted: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let size = Size::of(args);
    let source = directory.join("source");
    fs::create_dir(directory.join("storage")).context("cannot make the storage directory")?;
    with_bar("generate", interrupted, |step| {
        data::generate(&source, size.data, step)
    })?;
    let (digests, amounts) = digests(&source, interrupted)?;
    let addresses = if world.has_rails() {
        Addresses::Rails
    } else {
        Addresses::Loopback
    };
    let plan = Plan::make(directory, addresses)?;
    world.build(&plan.nodes)?;
    print(&format!("{}\n{}", world.describe(), plan.proof))?;
    let reserved = match world.has_rails() {
        true => None,
        false => {
            Some(ReservedPort::on(std::net::Ipv4Addr::UNSPECIFIED).context("no TCP port is free")?)
        }
    };
    let stage = Stage {
        directory,
        port: reserved.as_ref().map(ReservedPort::number),
    };
    let mut cast = Cast::start(&plan, &stage, &world)?;
    for (name, id) in cast.processes() {
        print(&format!("  {name:10} process {id}\n"))?;
    }
    let mut show = Show {
        args,
        plan: &plan,
        world: &world,
        stage: &stage,
        digests,
        amounts,
        interrupted,
    };
    let outcome = show.perform(&mut cast, size.work)?;
    if let Some(path) = &args.report {
        write_report(path, &outcome)?;
    }
    if args.keep {
        show.keep()?;
    }
    cast.stop()?;
    Ok(outcome)
}

/// Returns the digests of the source, and the amount of data in its two trees.
fn digests(source: &Path, interrupted: &AtomicBool) -> anyhow::Result<(Digests, [Amount; 2])> {
    let (all, _) = with_bar("digest", interrupted, |step| data::digests(source, step))?;
    let mut amounts = [Amount::default(); 2];
    for path in all.keys() {
        let index = usize::from(path.starts_with("small"));
        let length = fs::metadata(source.join(path)).map(|file| file.len());
        amounts[index].files += 1;
        amounts[index].bytes +=
            length.with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok((all, amounts))
}

/// The running demo.
struct Show<'a> {
    args: &'a DemoArgs,
    plan: &'a Plan,
    world: &'a World,
    stage: &'a Stage<'a>,
    digests: Digests,
    /// The amount of data: first of the large file, then of the small files.
    amounts: [Amount; 2],
    interrupted: &'a AtomicBool,
}

impl Show<'_> {
    /// Lets the compute processes work while parts fail, and verifies what they wrote.
    fn perform(&mut self, cast: &mut Cast, work: Duration) -> anyhow::Result<Outcome> {
        let (stop, tally) = (AtomicBool::new(false), Tally::default());
        let (mount, mounted) = self.mount();
        let compute = Compute {
            world: self.world,
            socket: self.stage.socket(),
            source: self.stage.directory.join("source"),
            mount: mount.as_ref().map(|(path, _)| path.clone()),
            stop: &stop,
            tally: &tally,
        };
        let watched = self.watched();
        let names = watched.iter().map(|node| Track {
            name: node.name.clone(),
            points: Vec::new(),
        });
        let tracks: Vec<Mutex<Track>> = names.map(Mutex::new).collect();
        let unwatch = AtomicBool::new(false);
        let begun = Instant::now();
        let log = thread::scope(|scope| -> anyhow::Result<Log> {
            for (node, track) in watched.iter().zip(&tracks) {
                scope.spawn(|| watch::follow(node, begun, &unwatch, track));
            }
            let compute = &compute;
            let [large, small] = self.amounts.map(|amount| amount.bytes);
            let workers = [
                scope.spawn(move || compute.write_large(large)),
                scope.spawn(move || compute.write_small(small)),
                scope.spawn(move || compute.unpack(small)),
            ];
            let log = self.direct(cast, begun, work, &tracks);
            stop.store(true, Ordering::Relaxed);
            let worked = workers.map(|worker| {
                worker
                    .join()
                    .map_err(|_panic| anyhow!("a worker ended early"))
            });
            unwatch.store(true, Ordering::Relaxed);
            for result in worked {
                result??;
            }
            log
        })?;
        let work_ms = millis(begun.elapsed());
        if let Some((_, mut service)) = mount {
            service.stop()?;
        }
        let tracks = tracks
            .into_iter()
            .map(|track| track.into_inner().unwrap_or_default())
            .collect();
        let verified = self.verify(&tally)?;
        let outcome = self.outcome(work_ms, &tally, log, tracks, verified, mounted)?;
        print(&format!("\n{outcome}"))?;
        Ok(outcome)
    }

    /// Mounts the files, if this is possible, for programs that do not know Finerail. Returns a text for the
    /// report too.
    fn mount(&self) -> (Option<(PathBuf, Service)>, String) {
        let path = self.stage.directory.join("mount");
        let mut service = self.stage.mount(&path);
        let made = fs::create_dir(&path).map_err(anyhow::Error::from);
        match made.and_then(|()| service.start(self.world)) {
            Ok(()) => (
                Some((path, service)),
                "An unmodified tar writes through a mount.".to_owned(),
            ),
            Err(why) => {
                let line = format!("{why:#}")
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .to_owned();
                (None, format!("There is no mount here: {line}."))
            }
        }
    }

    /// Returns the nodes to sample: first the I/O node, then the routers.
    fn watched(&self) -> Vec<Watched> {
        let routers = self
            .plan
            .with_role(NodeRole::Router)
            .map(|node| node.name.as_str());
        let names = std::iter::once(IO_NODE).chain(routers);
        names
            .map(|name| Watched {
                name: name.to_owned(),
                control: self.stage.control(name),
            })
            .collect()
    }

    /// Causes the faults of the schedule, and ends them.
    fn direct(
        &self,
        cast: &mut Cast,
        begun: Instant,
        work: Duration,
        tracks: &[Mutex<Track>],
    ) -> anyhow::Result<Log> {
        let mut log = Log::default();
        let control = |words: &[&str]| self.control(words);
        let mut striker = Striker {
            plan: self.plan,
            world: self.world,
            cast,
            control: &control,
        };
        self.explain(&mut log, "before any fault");
        for fault in self.args.faults.schedule(work, self.args.seed) {
            self.wait(begun, fault.at, tracks)?;
            self.suffer(&mut striker, fault, begun, tracks, &mut log)?;
        }
        self.wait(begun, work, tracks)?;
        self.explain(&mut log, "after all faults");
        Ok(log)
    }

    fn suffer(
        &self,
        striker: &mut Striker<'_>,
        fault: Fault,
        begun: Instant,
        tracks: &[Mutex<Track>],
        log: &mut Log,
    ) -> anyhow::Result<()> {
        let router = busiest(&tracks[1..]);
        let at_ms = millis(begun.elapsed());
        let target = striker.strike(fault.kind, router)?;
        let name = fault.kind.describe();
        print(&format!(
            "{:6.1} s  {name}: {target}\n",
            begun.elapsed().as_secs_f64()
        ))?;
        let until = begun.elapsed() + fault.lasts;
        if fault.kind != FaultKind::RouterHung {
            self.explain(log, &format!("{name}: {target}"));
        }
        self.wait(begun, until, tracks)?;
        striker.mend(fault.kind, router)?;
        let until_ms = millis(begun.elapsed());
        log.faults.push(FaultOutcome {
            kind: fault.kind,
            target,
            at_ms,
            until_ms,
            pause_ms: 0,
            goal_ms: fault.kind.goal(self.lnd_timeout()?).map(millis),
        });
        Ok(())
    }

    /// Waits until `at`, and draws the live line on a terminal.
    fn wait(&self, begun: Instant, at: Duration, tracks: &[Mutex<Track>]) -> anyhow::Result<()> {
        let is_live = io::stdout().is_terminal();
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            let left = at.saturating_sub(begun.elapsed());
            if is_live {
                print(&format!(
                    "\r{}\x1b[K{}",
                    live_line(begun, tracks),
                    if left.is_zero() { "\r\x1b[K" } else { "" }
                ))?;
            }
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LIVE));
        }
    }

    /// Records the output of `finerail explain` for the current path to the first gateway.
    fn explain(&self, log: &mut Log, when: &str) {
        let Some(server) = self.plan.with_role(NodeRole::Server).next() else {
            return;
        };
        let socket = self.stage.control(IO_NODE).display().to_string();
        let text = self.ask(&["explain", "--node", &socket, "--to", &server.nid]);
        let text = text.unwrap_or_else(|why| format!("{why:#}"));
        log.explanations.push(Explanation {
            when: when.to_owned(),
            text,
        });
    }

    /// Runs a control command on the I/O node.
    fn control(&self, words: &[&str]) -> anyhow::Result<()> {
        let socket = self.stage.control(IO_NODE).display().to_string();
        let mut all = vec!["ctl", "--node", &socket];
        all.extend(words);
        self.ask(&all).map(drop)
    }

    /// Returns the LND timeout that the I/O node uses.
    fn lnd_timeout(&self) -> anyhow::Result<Duration> {
        let socket = self.stage.control(IO_NODE).display().to_string();
        let text = self.ask(&["ctl", "--node", &socket, "global", "show"])?;
        let value = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("lnd_timeout:"));
        let seconds = value.and_then(|value| value.trim().parse().ok());
        Ok(Duration::from_secs(
            seconds.context("the node does not say its lnd_timeout")?,
        ))
    }

    /// Runs a command of this program, and returns its output.
    fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let output = this_program(&words)?
            .output()
            .context("cannot run this program")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn verify(&self, tally: &Tally) -> anyhow::Result<Verified> {
        let put = tally.put.lock().map(|put| put.clone()).unwrap_or_default();
        let manifest = Manifest::of(&put, &self.digests);
        manifest.write(self.stage.directory)?;
        let storage = self.stage.storage();
        let (differences, bytes) = with_bar("verify", self.interrupted, |step| {
            manifest.verify(&storage, step)
        })?;
        Ok(Verified {
            files: manifest.files.len() as u64,
            bytes,
            differences,
        })
    }

    fn outcome(
        &self,
        work_ms: u64,
        tally: &Tally,
        log: Log,
        tracks: Vec<Track>,
        verified: Verified,
        mount: String,
    ) -> anyhow::Result<Outcome> {
        let routers = tracks.get(1..).context("no node was watched")?;
        let flow = watch::Flow::through(routers);
        let limit = limit::loopback().context("cannot measure this machine's loopback limit")?;
        let struck: Vec<u64> = log.faults.iter().map(|fault| fault.at_ms).collect();
        let measured = |(number, mut fault): (usize, FaultOutcome)| {
            let next = struck.get(number + 1).copied();
            let until = watch::counts_until(fault.until_ms, next);
            fault.pause_ms = flow.longest_pause(fault.at_ms, until);
            fault
        };
        Ok(Outcome {
            seed: self.args.seed,
            world: self.world.describe(),
            mount,
            work_ms,
            carried_ms: flow.last(),
            commands: tally.commands.load(Ordering::Relaxed),
            bytes: tally.bytes.load(Ordering::Relaxed),
            retries: tally.retries.load(Ordering::Relaxed),
            failures: tally
                .failures
                .lock()
                .map(|failures| failures.clone())
                .unwrap_or_default(),
            faults: log.faults.into_iter().enumerate().map(measured).collect(),
            tracks,
            explanations: log.explanations,
            plan: self.plan.figures.clone(),
            proof: self.plan.proof.clone(),
            limit: limit.bytes_per_second,
            congestion: limit.congestion,
            verified,
        })
    }

    /// Waits until the demo is interrupted.
    fn keep(&self) -> anyhow::Result<()> {
        let socket = self.stage.control(IO_NODE);
        print(&format!(
            "\nAll processes run until Ctrl-C. Inspect them with:\n  \
             finerail ctl --node {0} route show\n  finerail top --node {0}\n",
            socket.display()
        ))?;
        while !self.interrupted.load(Ordering::Relaxed) {
            thread::sleep(LIVE);
        }
        Ok(())
    }
}

/// The faults that occurred, and the explanations of paths.
#[derive(Default)]
struct Log {
    faults: Vec<FaultOutcome>,
    explanations: Vec<Explanation>,
}

/// Returns the index of the router that moved most bytes in the last second.
fn busiest(routers: &[Mutex<Track>]) -> usize {
    let rate = |track: &Mutex<Track>| {
        let track = track
            .lock()
            .map(|track| track.points.clone())
            .unwrap_or_default();
        let last = track.last().map_or(0, |point| point.bytes);
        let before = track.iter().rev().nth(10).map_or(0, |point| point.bytes);
        last.saturating_sub(before)
    };
    let rates = routers.iter().map(rate).enumerate();
    rates
        .max_by_key(|&(_, rate)| rate)
        .map_or(0, |(index, _)| index)
}

fn live_line(begun: Instant, tracks: &[Mutex<Track>]) -> String {
    let mut line = format!("{:6.1} s", begun.elapsed().as_secs_f64());
    for track in tracks {
        let Ok(track) = track.lock() else { continue };
        let last = track.points.last().map_or(0, |point| point.bytes);
        let before = track
            .points
            .iter()
            .rev()
            .nth(5)
            .map_or(last, |point| point.bytes);
        let rate = last.saturating_sub(before) * 2 / 1_000_000;
        line.push_str(&format!("   {} {rate} MB/s", track.name));
    }
    line
}

fn write_report(path: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    let json = path.with_extension("json");
    let write = |path: &Path, text: String| {
        sys::write_file(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(path, page::page(outcome))?;
    write(&json, serde_json::to_string_pretty(outcome)?)?;
    print(&format!(
        "{} shows what happened; its figures are in {}.\n",
        path.display(),
        json.display()
    ))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
