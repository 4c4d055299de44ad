use super::*;

/// Two files.
const FILES: [Identity; 2] = [file(1), file(2)];

const fn file(number: u64) -> Identity {
    Identity {
        filesystem: 1,
        file: number,
        born: (0, 0),
    }
}

/// The locks at a time that the test moves. Each request has the next number.
struct Bed {
    locks: Locks,
    now: Instant,
    next: u64,
}

fn done() -> Result<LockOutcome, Errno> {
    Ok(LockOutcome::Done)
}

fn lock(owner: u64, first: u64, last: u64, is_exclusive: bool) -> Lock {
    Lock {
        owner,
        process: 0,
        is_exclusive,
        first,
        last,
    }
}

/// A whole file.
fn all(owner: u64) -> Lock {
    lock(owner, 0, u64::MAX, true)
}

impl Bed {
    fn new() -> Self {
        Self {
            locks: Locks::new(100),
            now: Instant::now(),
            next: 1,
        }
    }

    fn repeat(
        &mut self,
        sequence: u64,
        holder: u64,
        file: Identity,
        action: LockAction,
        lock: Lock,
    ) -> Result<LockOutcome, Errno> {
        let asked = Asked {
            holder,
            sequence,
            floor: 0,
            action,
            lock,
        };
        let carried_out = self.locks.carry_out(file, &asked, self.now);
        let count: usize = self.locks.files.values().map(OfFile::count).sum();
        assert_eq!(self.locks.count, count);
        let own = self.locks.sessions.values().map(|session| session.count);
        assert_eq!(own.sum::<usize>(), count);
        Ok(carried_out?.1)
    }

    fn ask(
        &mut self,
        holder: u64,
        file: Identity,
        action: LockAction,
        lock: Lock,
    ) -> Result<LockOutcome, Errno> {
        self.next += 1;
        self.repeat(self.next, holder, file, action, lock)
    }

    /// Begins to wait. Returns the number of the request.
    fn wait(&mut self, holder: u64, file: Identity, lock: Lock) -> u64 {
        let outcome = self.ask(holder, file, LockAction::Wait, lock);
        assert!(
            matches!(outcome, Ok(LockOutcome::Blocked(..))),
            "{outcome:?}"
        );
        self.next
    }
}

#[test]
fn a_lock_excludes_other_clients_and_other_owners_until_it_is_released() {
    let (mut bed, [a, _]) = (Bed::new(), FILES);
    let shared = |owner| lock(owner, 5, 9, false);
    assert_eq!(bed.ask(1, a, LockAction::Try, shared(1)), done());
    assert_eq!(bed.ask(2, a, LockAction::Try, shared(1)), done());
    let conflict = bed.ask(1, a, LockAction::Try, lock(2, 9, 9, true));
    assert_eq!(conflict, Ok(LockOutcome::Blocked(shared(1), true)));
    assert_eq!(
        bed.ask(1, a, LockAction::Try, lock(2, 10, 10, true)),
        done()
    );
    assert_eq!(bed.ask(1, a, LockAction::Release, shared(1)), done());
    let theirs = bed.ask(1, a, LockAction::Test, lock(2, 9, 9, true));
    assert_eq!(theirs, Ok(LockOutcome::Blocked(shared(1), false)));
    assert_eq!(bed.ask(2, a, LockAction::Release, all(1)), done());
    assert_eq!(bed.ask(1, a, LockAction::Release, all(2)), done());
    assert!(bed.locks.files.is_empty());
}

#[test]
fn who_waits_first_is_served_first_and_readers_do_not_overtake_a_writer() {
    let (mut bed, [a, _]) = (Bed::new(), FILES);
    let read = lock(1, 0, 9, false);
    assert_eq!(bed.ask(1, a, LockAction::Try, read), done());
    let writer = bed.wait(2, a, all(1));
    let reader = bed.wait(3, a, read);
    assert_eq!(bed.ask(1, a, LockAction::Release, all(1)), done());
    let early = bed.repeat(reader, 3, a, LockAction::Wait, read);
    assert!(matches!(early, Ok(LockOutcome::Blocked(..))), "{early:?}");
    let early = bed.ask(4, a, LockAction::Try, read);
    assert!(matches!(early, Ok(LockOutcome::Blocked(..))), "{early:?}");
    assert_eq!(bed.repeat(writer, 2, a, LockAction::Wait, all(1)), done());
    assert_eq!(bed.ask(2, a, LockAction::Release, all(1)), done());
    assert_eq!(bed.repeat(reader, 3, a, LockAction::Wait, read), done());
}

#[test]
fn an_owner_with_locks_does_not_stand_behind_those_who_wait_for_it() {
    let (mut bed, [a, b]) = (Bed::new(), FILES);
    assert_eq!(bed.ask(1, b, LockAction::Try, all(1)), done());
    assert_eq!(bed.ask(4, a, LockAction::Try, lock(1, 0, 0, false)), done());
    bed.wait(2, a, all(1));
    // The owner with the lock on the other file passes the writer, and the one without a lock does not.
    assert_eq!(bed.ask(1, a, LockAction::Try, lock(1, 0, 0, false)), done());
    let behind = bed.ask(3, a, LockAction::Try, lock(1, 0, 0, false));
    assert!(matches!(behind, Ok(LockOutcome::Blocked(..))), "{behind:?}");
}

#[test]
fn a_wait_that_nobody_repeats_loses_its_place() {
    let (mut bed, [a, _]) = (Bed::new(), FILES);
    assert_eq!(bed.ask(1, a, LockAction::Try, all(1)), done());
    bed.wait(2, a, all(1));
    assert_eq!(bed.ask(1, a, LockAction::Release, all(1)), done());
    assert!(matches!(
        bed.ask(3, a, LockAction::Try, all(1)),
        Ok(LockOutcome::Blocked(..))
    ));
    bed.now += LOCK_PATIENCE;
    assert_eq!(bed.ask(3, a, LockAction::Try, all(1)), done());
}

#[test]
fn a_circle_of_waits_is_a_deadlock_for_the_one_who_closes_it() {
    let (mut bed, [a, b]) = (Bed::new(), FILES);
    let c = file(3);
    for (holder, file) in [(1, a), (2, b), (3, c)] {
        assert_eq!(bed.ask(holder, file, LockAction::Try, all(7)), done());
    }
    bed.wait(1, b, all(7));
    bed.wait(2, c, all(7));
    assert_eq!(bed.ask(3, a, LockAction::Wait, all(7)), Err(Errno::EDEADLK));
    // Another owner of the same client is no part of the circle.
    bed.wait(3, a, all(8));
}

#[test]
fn a_late_copy_of_an_earlier_request_does_nothing() {
    let (mut bed, [a, _]) = (Bed::new(), FILES);
    let ask = |bed: &mut Bed, sequence, floor, action| {
        let asked = Asked {
            holder: 1,
            sequence,
            floor,
            action,
            lock: all(1),
        };
        bed.locks
            .carry_out(a, &asked, bed.now)
            .map(|(_, outcome)| outcome)
    };
    assert_eq!(ask(&mut bed, 1, 1, LockAction::Release), done());
    assert_eq!(ask(&mut bed, 2, 2, LockAction::Try), done());
    assert_eq!(
        ask(&mut bed, 1, 1, LockAction::Release),
        Err(Errno::EALREADY)
    );
    assert!(matches!(
        bed.ask(2, a, LockAction::Try, all(1)),
        Ok(LockOutcome::Blocked(..))
    ));
}

#[test]
fn a_client_that_is_silent_loses_its_locks_and_learns_that_by_the_number_of_its_session() {
    let (mut bed, [a, _]) = (Bed::new(), FILES);
    assert_eq!(bed.ask(1, a, LockAction::Try, all(1)), done());
    let first = bed.locks.keep(1, bed.now).unwrap();
    bed.now += HOLD_TIME / 2;
    assert_eq!(bed.locks.keep(1, bed.now), Ok(first));
    bed.wait(2, a, all(1));
    bed.now += HOLD_TIME;
    assert_eq!(bed.ask(3, a, LockAction::Try, all(1)), done());
    assert_ne!(bed.locks.keep(1, bed.now), Ok(first));
}

#[test]
fn the_number_of_locks_of_one_client_is_limited() {
    let (mut bed, [a, b]) = (Bed::new(), FILES);
    for byte in 0..64 {
        let file = file(byte + 10);
        for place in 0..(OWN_MAX / 64) as u64 {
            let lock = lock(1, 2 * place, 2 * place, true);
            assert_eq!(bed.ask(1, file, LockAction::Try, lock), done());
        }
    }
    assert_eq!(bed.ask(1, a, LockAction::Try, all(1)), Err(Errno::ENOLCK));
    let middle = bed.ask(1, file(10), LockAction::Release, lock(1, 1, 1, true));
    assert_eq!(middle, Err(Errno::ENOLCK));
    assert_eq!(bed.ask(2, b, LockAction::Try, all(1)), done());
    assert_eq!(bed.ask(1, file(10), LockAction::Release, all(1)), done());
    assert_eq!(bed.ask(1, a, LockAction::Try, all(1)), done());
}

#[test]
fn after_a_restart_only_those_who_had_locks_get_them_for_a_while() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("locks");
    let export = directory.path().join("export");
    fs::create_dir(&export).unwrap();
    fs::write(export.join("f"), "x").unwrap();
    let start = || {
        let files = LocalDirectory::open(&export, crate::dir::Options::default()).unwrap();
        files.remember_locks(mark.clone())
    };
    let ask = |files: &LocalDirectory, holder, sequence, action| {
        let place = crate::Place::from_root(b"f").unwrap();
        let file = crate::FileSystem::lookup(files, &crate::Caller::default(), place).unwrap();
        let asked = Asked {
            holder,
            sequence,
            floor: 0,
            action,
            lock: all(1),
        };
        files.lock_file(file.handle, &asked)
    };
    let outcome = |reply: Result<Reply, Errno>| match reply {
        Ok(Reply::Lock(_, outcome)) => outcome,
        other => unreachable!("{other:?}"),
    };
    let first = start();
    assert!(!mark.exists());
    assert_eq!(
        outcome(ask(&first, 1, 1, LockAction::Try)),
        LockOutcome::Done
    );
    assert!(mark.exists());
    drop(first);

    let second = start();
    assert_eq!(
        outcome(ask(&second, 2, 1, LockAction::Try)),
        LockOutcome::Later
    );
    assert_eq!(
        outcome(ask(&second, 1, 2, LockAction::Reclaim)),
        LockOutcome::Done
    );
    let blocked = outcome(ask(&second, 2, 1, LockAction::Try));
    assert!(matches!(blocked, LockOutcome::Blocked(..)), "{blocked:?}");
    second.locks().grace_until = Some(Instant::now());
    let blocked = outcome(ask(&second, 2, 1, LockAction::Try));
    assert!(matches!(blocked, LockOutcome::Blocked(..)), "{blocked:?}");
    let long_ago = Instant::now().checked_sub(MARKED_MIN);
    second.locks().mark.as_mut().unwrap().since = long_ago;
    ask(&second, 1, 3, LockAction::Release).unwrap();
    assert!(!mark.exists());
    drop(second);
    assert_eq!(
        outcome(ask(&start(), 2, 1, LockAction::Try)),
        LockOutcome::Done
    );
}
