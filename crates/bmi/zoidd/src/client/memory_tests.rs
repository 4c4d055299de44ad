//! Copies with memory of the test process in place of a client's.

use proptest::prelude::*;

use super::*;

/// Returns memory of this process as a client would name it.
fn part(span: &Span) -> RemotePart {
    RemotePart {
        address: span.as_ptr().addr() as u64,
        len: span.len() as u64,
    }
}

fn memory(number: u64, mark: &Span) -> Memory {
    // A failed test panics.
    let handle = ProcessHandle::open(std::process::id()).unwrap();
    Memory {
        process: std::process::id(),
        handle,
        number,
        mark: Ok(part(mark)),
        offers: BTreeMap::new(),
        copies: VecDeque::new(),
    }
}

fn copying(way: CopyDirection, client: &[Span], segment: &[Span]) -> Copying {
    let total = segment.iter().map(Span::len).sum::<usize>() as u64;
    Copying {
        grant: 1,
        way,
        message: Message {
            request: 5,
            spans: segment.to_vec(),
            total,
        },
        parts: client.iter().rev().map(part).collect(),
        spans: segment.iter().rev().cloned().collect(),
        left: total,
    }
}

/// Returns the spans into which the borders divide `bytes`.
fn cut(bytes: &[u8], borders: &[usize]) -> Vec<Span> {
    let mut borders: Vec<usize> = borders.iter().map(|at| at % (bytes.len() + 1)).collect();
    borders.extend([0, bytes.len()]);
    borders.sort_unstable();
    let pieces = borders.windows(2);
    pieces
        .map(|ends| Span::from(bytes[ends[0]..ends[1]].to_vec()))
        .collect()
}

fn all(spans: &[Span]) -> Vec<u8> {
    spans.iter().flat_map(Span::to_vec).collect()
}

proptest! {
    #[test]
    fn a_message_is_the_same_whatever_the_pieces_on_either_side(
        bytes in prop::collection::vec(any::<u8>(), 1..3000),
        client in prop::collection::vec(any::<usize>(), 0..150),
        segment in prop::collection::vec(any::<usize>(), 0..150),
        out: bool,
    ) {
        let mark = Span::from(7_u64.to_ne_bytes().to_vec());
        let mut memory = memory(7, &mark);
        let zeros = vec![0; bytes.len()];
        let (way, from, to) = match out {
            true => (CopyDirection::Out, cut(&bytes, &segment), cut(&zeros, &client)),
            false => (CopyDirection::In, cut(&bytes, &client), cut(&zeros, &segment)),
        };
        let (there, here) = if out { (&to, &from) } else { (&from, &to) };
        memory.copies.push_back(copying(way, there, here));
        let mut moved = 0;
        while let Some(step) = memory.step() {
            let step = step.map_err(|failed| TestCaseError::fail(format!("{:?}", failed.why)))?;
            moved += step.bytes;
            prop_assert_eq!(step.complete.is_some(), moved == bytes.len());
        }
        prop_assert_eq!(moved, bytes.len());
        prop_assert_eq!(all(&to), bytes);
    }
}

#[test]
fn more_empty_pieces_than_one_call_takes_are_passed_over() {
    for way in [CopyDirection::In, CopyDirection::Out] {
        let mark = Span::from(7_u64.to_ne_bytes().to_vec());
        let mut memory = memory(7, &mark);
        let (filled, whole) = (cut(&[5], &[0; 2000]), cut(&[5], &[]));
        let (client, segment) = match way {
            CopyDirection::In => (&filled, &whole),
            CopyDirection::Out => (&whole, &filled),
        };
        memory.copies.push_back(copying(way, client, segment));
        memory.copies.push_back(copying(way, segment, client));
        for _ in 0..2 {
            assert_eq!(memory.step().unwrap().unwrap().bytes, 1);
        }
    }
}

#[test]
fn a_step_is_a_chunk_at_most() {
    let mark = Span::from(7_u64.to_ne_bytes().to_vec());
    let mut memory = memory(7, &mark);
    let len = 9 << 20;
    let (from, to) = (Span::from(vec![1; len]), Span::from(vec![0; len]));
    memory.copies.push_back(copying(
        CopyDirection::In,
        std::slice::from_ref(&from),
        std::slice::from_ref(&to),
    ));
    let steps: Vec<usize> = std::iter::from_fn(|| memory.step())
        .map(|step| step.unwrap().bytes)
        .collect();
    assert_eq!(steps, [4 << 20, 4 << 20, 1 << 20]);
    assert!(to.to_vec() == from.to_vec());
}

// [FWD-42]
#[test]
fn bytes_of_a_process_without_the_number_do_not_count_and_none_are_written_to_it() {
    let mark = Span::from(8_u64.to_ne_bytes().to_vec());
    let mut memory = memory(7, &mark);
    let client = [Span::from(vec![1; 10])];
    for way in [CopyDirection::In, CopyDirection::Out] {
        let segment = [Span::from(vec![2; 10])];
        memory.copies.push_back(copying(way, &client, &segment));
        let failed = memory.step().unwrap().unwrap_err();
        assert_eq!(failed.why, Failure::Obstacle(Obstacle::Mark));
        assert_eq!(
            (failed.grant, failed.way, failed.message.request),
            (1, way, 5)
        );
    }
    assert_eq!(client[0].to_vec(), [1; 10]);
}

#[test]
fn a_process_that_has_ended_is_gone() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let handle = ProcessHandle::open(child.id()).unwrap();
    let process = child.id();
    child.wait().unwrap();
    let mark = Span::from(7_u64.to_ne_bytes().to_vec());
    let mut memory = Memory {
        process,
        handle,
        ..memory(7, &mark)
    };
    for way in [CopyDirection::In, CopyDirection::Out] {
        let spans = [Span::from(vec![2; 10])];
        memory.copies.push_back(copying(way, &spans, &spans));
        let failed = memory.step().unwrap().unwrap_err();
        assert_eq!(failed.why, Failure::Gone);
    }
}

#[test]
fn what_was_given_up_stays_so_for_that_reason() {
    let mark = Span::from(7_u64.to_ne_bytes().to_vec());
    let mut memory = memory(7, &mark);
    assert!(memory.takes(SHORTEST) && !memory.takes(SHORTEST - 1));
    memory.stop_copying(Obstacle::Permission);
    assert!(!memory.takes(SHORTEST));
    let failure = memory.check().unwrap_err();
    assert_eq!(failure, Failure::Obstacle(Obstacle::Permission));
}
