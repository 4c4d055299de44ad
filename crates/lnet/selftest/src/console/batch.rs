//! Batches: tests that run and stop together.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use lnet_types::{Nid, ProcessId};

use super::{
    Answer, Caller, Console, ConsoleError, Kind, NAMED_MAX, Question, Session, TIMEOUT, Test,
    named, only_failures,
};
use crate::framework::CONCURRENCY_MAX;
use crate::wire::{
    BatchReply, BatchRequest, Body, DESTINATIONS_MAX, TestRequest, encode_destinations,
};

/// The state of a batch, as the console last set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchState {
    /// The batch was not run, or was stopped.
    Idle,
    /// The batch was run.
    Running,
}

/// A set of tests that run and stop together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The name of the batch.
    pub name: String,
    /// The state of the batch.
    pub state: BatchState,
    /// The tests of the batch; the first test has the number 1.
    pub tests: Vec<Test>,
    id: u64,
    /// How often the batch was run: an answer that was asked for before the last run says nothing about it.
    runs: u64,
}

impl Batch {
    pub(super) fn new(name: &str, id: u64) -> Self {
        Self {
            name: name.to_owned(),
            state: BatchState::Idle,
            tests: Vec::new(),
            id,
            runs: 0,
        }
    }
}

impl Session {
    /// Returns the batch with this name.
    ///
    /// # Errors
    ///
    /// No batch has this name.
    pub fn batch(&self, name: &str) -> Result<&Batch, ConsoleError> {
        let batch = self.batches.iter().find(|batch| batch.name == name);
        batch.ok_or_else(|| ConsoleError::NotFound("batch", name.to_owned()))
    }

    fn batch_mut(&mut self, name: &str) -> Result<&mut Batch, ConsoleError> {
        let batch = self.batches.iter_mut().find(|batch| batch.name == name);
        batch.ok_or_else(|| ConsoleError::NotFound("batch", name.to_owned()))
    }

    /// Returns the clients of a batch, or its servers. If `test` is not 0, returns only those of this test.
    ///
    /// # Errors
    ///
    /// The batch or the test does not exist.
    pub fn parties(
        &self,
        batch: &str,
        test: usize,
        clients: bool,
    ) -> Result<Vec<Nid>, ConsoleError> {
        let batch = self.batch(batch)?;
        let tests = match test {
            0 => &batch.tests[..],
            _ => batch.tests.get(test - 1..test).ok_or_else(|| {
                ConsoleError::NotFound("test", format!("{test} in batch {}", batch.name))
            })?,
        };
        let mut all = BTreeSet::new();
        for test in tests {
            let name = if clients { &test.from } else { &test.to };
            all.extend(self.group(name)?.nodes.iter().copied());
        }
        Ok(all.into_iter().collect())
    }
}

impl<C: Caller> Console<C> {
    /// Makes a batch without tests.
    ///
    /// # Errors
    ///
    /// The console has no session, the name is bad, a batch has this name, or a limit is reached.
    pub fn add_batch(&mut self, name: &str) -> Result<(), ConsoleError> {
        named(name)?;
        let session = self.session()?;
        if session.batches.iter().any(|batch| batch.name == name) {
            return Err(ConsoleError::Exists("batch", name.to_owned()));
        }
        if session.batches.len() >= NAMED_MAX {
            return Err(ConsoleError::TooMany("batches", NAMED_MAX));
        }
        let id = self.batch_id();
        self.session_mut()?.batches.push(Batch::new(name, id));
        Ok(())
    }

    /// Removes a batch that does not run. The nodes keep its tests until the session ends.
    ///
    /// # Errors
    ///
    /// The batch does not exist, or it runs.
    pub fn del_batch(&mut self, name: &str) -> Result<(), ConsoleError> {
        let session = self.session_mut()?;
        session.idle_batch(name)?;
        session.batches.retain(|batch| batch.name != name);
        Ok(())
    }

    /// Adds a test to a batch: at all servers, then at all clients. Returns the nodes that rejected the test.
    /// The test is added if at least one server and one client accepted it.
    ///
    /// # Errors
    ///
    /// The batch or a group does not exist, the batch runs, a message cannot carry the test, or no server or no
    /// client accepted it.
    // [LST-18]
    pub fn add_test(&mut self, batch: &str, test: Test) -> Result<Vec<Answer<()>>, ConsoleError> {
        let session = self.session_mut()?;
        let id = session.idle_batch(batch)?;
        let (from, to) = (
            session.group(&test.from)?.nodes.clone(),
            session.group(&test.to)?.nodes.clone(),
        );
        if test.concurrency == 0 || test.concurrency > CONCURRENCY_MAX || test.repeat == Some(0) {
            return Err(ConsoleError::BadParameter(format!(
                "the concurrency is 1 to {CONCURRENCY_MAX}, and the loop count at least 1"
            )));
        }
        let head = TestRequest {
            session: session.id,
            batch: id,
            service: test.kind.service().0,
            repeat: test
                .repeat
                .map_or(-1, |repeat| i32::try_from(repeat).unwrap_or(i32::MAX)),
            concurrency: test.concurrency,
            stop_on_error: test.stop_on_error.into(),
            params: test.kind.params(),
            ..TestRequest::default()
        };
        let servers = servers(&head, &test, &from, &to);
        let clients = clients(&head, &test, &from, &to)?;
        let mut failures = self.add_at(servers)?;
        failures.extend(self.add_at(clients)?);
        self.session_mut()?.batch_mut(batch)?.tests.push(test);
        Ok(failures)
    }

    /// Announces to the nodes of a group that this node itself will load them, each with this many RPCs at the
    /// same time.
    ///
    /// # Errors
    ///
    /// The batch or the group does not exist, or no node accepted the request.
    pub fn add_servers(
        &mut self,
        batch: &str,
        group: &str,
        kind: Kind,
        concurrency: u32,
    ) -> Result<Vec<Answer<()>>, ConsoleError> {
        let session = self.session()?;
        let request = TestRequest {
            session: session.id,
            batch: session.batch(batch)?.id,
            service: kind.service().0,
            repeat: i32::try_from(concurrency.max(1)).unwrap_or(i32::MAX),
            concurrency: concurrency.clamp(1, CONCURRENCY_MAX),
            params: kind.params(),
            ..TestRequest::default()
        };
        let nodes = session.group(group)?.nodes.iter();
        let requests = nodes.map(|&nid| (nid, Body::TestRequest(request), None));
        self.add_at(requests.collect())
    }

    /// Adds a test at these nodes. At least one of the nodes must accept it.
    fn add_at(
        &mut self,
        requests: Vec<(Nid, Body, Option<Bytes>)>,
    ) -> Result<Vec<Answer<()>>, ConsoleError> {
        let count = requests.len();
        let mut failures = only_failures(self.ask(requests));
        if failures.len() == count
            && let Some((_, Err(error))) = failures.pop()
        {
            return Err(error);
        }
        Ok(failures)
    }

    /// Runs a batch at its clients. Returns the clients that rejected this.
    ///
    /// # Errors
    ///
    /// The batch does not exist, has no tests, or runs already.
    pub fn run(&mut self, name: &str) -> Result<Vec<Answer<()>>, ConsoleError> {
        self.run_within(name, TIMEOUT)
    }

    /// Runs a batch as [`Self::run`] does, with this timeout for each answer.
    ///
    /// # Errors
    ///
    /// Those of [`Self::run`].
    pub fn run_within(
        &mut self,
        name: &str,
        timeout: Duration,
    ) -> Result<Vec<Answer<()>>, ConsoleError> {
        let session = self.session_mut()?;
        session.idle_batch(name)?;
        if session.batch(name)?.tests.is_empty() {
            return Err(ConsoleError::NoTests(name.to_owned()));
        }
        let answers = self.tell(name, (BatchRequest::RUN, 0), timeout)?;
        let is_running = answers.iter().any(|(_, answer)| answer.is_ok());
        if is_running {
            let batch = self.session_mut()?.batch_mut(name)?;
            batch.state = BatchState::Running;
            batch.runs += 1;
        }
        Ok(failed(answers))
    }

    /// Stops a batch at its clients. With `force`, the RPCs under way are aborted.
    ///
    /// # Errors
    ///
    /// The batch does not exist.
    pub fn stop(&mut self, name: &str, force: bool) -> Result<Vec<Answer<()>>, ConsoleError> {
        let answers = self.tell(name, (BatchRequest::STOP, force.into()), TIMEOUT)?;
        self.session_mut()?.batch_mut(name)?.state = BatchState::Idle;
        Ok(failed(answers))
    }

    /// Asks the clients of a batch, or of one test, whether they run. If the whole batch runs at no client any
    /// more, its state becomes idle.
    ///
    /// # Errors
    ///
    /// The batch or the test does not exist.
    pub fn query(
        &mut self,
        name: &str,
        test: usize,
    ) -> Result<Vec<Answer<BatchReply>>, ConsoleError> {
        let (question, runs) = self.query_question(name, test)?;
        let answers = self.put(&question);
        self.settle(name, (test, runs), &answers);
        Ok(answers)
    }

    /// Makes the question whether the clients of a batch, or of one test, run, and returns how often the batch was run.
    pub(crate) fn query_question(
        &self,
        name: &str,
        test: usize,
    ) -> Result<(Question<BatchReply>, u64), ConsoleError> {
        let runs = self.session()?.batch(name)?.runs;
        let question = self.batch_question(name, test, (BatchRequest::QUERY, 0), TIMEOUT)?;
        Ok((question, runs))
    }

    /// Sets a batch to idle if all answers to the question about the whole batch say that it runs no more, and it was
    /// not run again since.
    pub(crate) fn settle(
        &mut self,
        name: &str,
        (test, runs): (usize, u64),
        answers: &[Answer<BatchReply>],
    ) {
        let is_over = answers
            .iter()
            .all(|(_, answer)| answer.as_ref().is_ok_and(|reply| reply.active == 0));
        let batch = self.session_mut();
        let batch = batch.and_then(|session| session.batch_mut(name));
        if let (true, 0, Ok(batch)) = (is_over, test, batch)
            && batch.runs == runs
        {
            batch.state = BatchState::Idle;
        }
    }

    fn tell(
        &mut self,
        name: &str,
        order: (u32, u32),
        timeout: Duration,
    ) -> Result<Vec<Answer<BatchReply>>, ConsoleError> {
        let question = self.batch_question(name, 0, order, timeout)?;
        Ok(self.put(&question))
    }

    fn batch_question(
        &self,
        name: &str,
        test: usize,
        (operation, argument): (u32, u32),
        timeout: Duration,
    ) -> Result<Question<BatchReply>, ConsoleError> {
        let session = self.session()?;
        let clients = session.parties(name, test, true)?;
        let body = Body::BatchRequest(BatchRequest {
            session: session.id,
            batch: session.batch(name)?.id,
            operation,
            test: u32::try_from(test).unwrap_or(u32::MAX),
            argument,
            ..BatchRequest::default()
        });
        Ok(Question::of(
            session.id,
            &clients,
            body,
            timeout,
            |body| match body {
                Body::BatchReply(reply) => Some(reply),
                _ => None,
            },
        ))
    }
}

impl Session {
    /// Returns the id of a batch that does not run.
    fn idle_batch(&self, name: &str) -> Result<u64, ConsoleError> {
        let batch = self.batch(name)?;
        match batch.state {
            BatchState::Idle => Ok(batch.id),
            BatchState::Running => Err(ConsoleError::Running(name.to_owned())),
        }
    }
}

/// Makes the requests for the servers of a test: how many requests each may have at the same time.
fn servers(
    head: &TestRequest,
    test: &Test,
    from: &[Nid],
    to: &[Nid],
) -> Vec<(Nid, Body, Option<Bytes>)> {
    let lists: Vec<Vec<Nid>> = (0..from.len())
        .map(|at| test.distribution.servers_of(at, to))
        .collect();
    let of = |server: &Nid| {
        let clients = lists.iter().filter(|list| list.contains(server)).count();
        let wanted = clients.saturating_mul(test.concurrency as usize).max(1);
        let request = TestRequest {
            repeat: i32::try_from(wanted).unwrap_or(i32::MAX),
            ..*head
        };
        (*server, Body::TestRequest(request), None)
    };
    to.iter().map(of).collect()
}

/// Makes the requests for the clients of a test: which destinations each loads.
fn clients(
    head: &TestRequest,
    test: &Test,
    from: &[Nid],
    to: &[Nid],
) -> Result<Vec<(Nid, Body, Option<Bytes>)>, ConsoleError> {
    if let Some(large) = to.iter().find(|nid| nid.is_large()) {
        return Err(ConsoleError::LargeDestination(large.to_string()));
    }
    let of = |(at, client): (usize, &Nid)| {
        let list = test.distribution.servers_of(at, to);
        let list: Vec<ProcessId> = list.into_iter().map(ProcessId::lustre).collect();
        if list.len() > DESTINATIONS_MAX {
            return Err(ConsoleError::TooManyDestinations(list.len()));
        }
        let request = TestRequest {
            is_client: 1,
            destinations: u32::try_from(list.len()).unwrap_or(u32::MAX),
            ..*head
        };
        let bytes = encode_destinations(&list).unwrap_or_default();
        Ok((*client, Body::TestRequest(request), Some(bytes.into())))
    };
    from.iter().enumerate().map(of).collect()
}

fn failed(answers: Vec<Answer<BatchReply>>) -> Vec<Answer<()>> {
    let failures = answers.into_iter().filter(|(_, answer)| answer.is_err());
    failures
        .map(|(nid, answer)| (nid, answer.map(|_| ())))
        .collect()
}
