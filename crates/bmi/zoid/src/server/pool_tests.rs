//! Pieces are disjoint, aligned and inside the region, and everything is free once they are freed.

use proptest::prelude::*;

use super::*;

fn pool(len: usize) -> Arc<Pool> {
    // A failed test panics.
    let leases = Leases::new(Span::zeroed(len + UNIT).unwrap()).unwrap();
    Pool::new(leases, UNIT..len + UNIT, Arc::default())
}

/// Returns the number of allocated bytes.
fn used(pool: &Pool) -> usize {
    let counts = pool.counters.read();
    // A failed test panics.
    usize::try_from(counts.memory_taken - counts.memory_returned).unwrap()
}

#[test]
fn r18_a_free_region_can_be_had_as_one_piece() {
    for units in [1, 7, 100, 1000, 8191, 8192 * 1023] {
        let pool = pool(units * UNIT);
        let whole = pool.allocate(units * UNIT).unwrap();
        assert_eq!((whole.start, whole.len), (0, units * UNIT));
        assert!(pool.allocate(1).is_none());
        drop(whole);
        assert!(pool.allocate(1).is_some());
        assert_eq!(used(&pool), 0);
    }
}

#[test]
fn r18_more_than_the_region_is_refused() {
    let pool = pool(4096);
    for len in [4097, usize::MAX, usize::MAX - 63] {
        assert!(pool.allocate(len).is_none());
    }
    assert_eq!(pool.capacity(), 4096);
}

#[test]
fn r56_whoever_waits_for_memory_hears_of_each_piece_that_is_given_back() {
    let heard = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let pool = pool(4096);
    let count = Arc::clone(&heard);
    pool.on_free(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    drop(pool.allocate(1));
    drop(pool.allocate(1));
    assert_eq!(heard.load(std::sync::atomic::Ordering::Relaxed), 2);
}

// [MEM-15]
#[test]
fn r56_what_may_fit_counts_old_pieces_only() {
    let second = Duration::from_secs(1);
    let pool = pool(64 * UNIT);
    let whole = pool.capacity();
    let pieces: Vec<Piece> = (0..4).map(|_| pool.allocate(16 * UNIT).unwrap()).collect();
    let now = Instant::now();
    assert!(pool.room(second, now).fits(whole));
    assert!(!pool.room(second, now).fits(whole + 1));
    assert!(!pool.room(second, now + second).fits(UNIT));
    drop(pieces);
    let _first = pool.allocate(16 * UNIT).unwrap();
    let later = Instant::now() + second;
    // The allocator may reject a piece that just fits, so it does not promise that it fits.
    assert!(!pool.room(second, later).fits(48 * UNIT));
    assert!(pool.room(second, later).fits(42 * UNIT));
    assert!(pool.allocate(42 * UNIT).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize),
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..20_000_usize).prop_map(Step::Allocate),
        any::<usize>().prop_map(Step::Free),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn r18_pieces_never_overlap_and_stay_inside_and_are_aligned(steps in steps()) {
        let pool = pool(1 << 17);
        let mut pieces: Vec<Piece> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate(len) => pieces.extend(pool.allocate(len)),
                Step::Free(index) if !pieces.is_empty() => {
                    pieces.swap_remove(index % pieces.len());
                }
                Step::Free(_) => {}
            }
            let place = |piece: &Piece| (piece.start, piece.taken);
            let mut places: Vec<(usize, usize)> = pieces.iter().map(place).collect();
            places.sort_unstable();
            for pair in places.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0);
            }
            for piece in &pieces {
                prop_assert!(piece.start + piece.taken <= 1 << 17);
                prop_assert!(piece.len <= piece.taken);
                prop_assert_eq!(piece.start % UNIT, 0);
            }
            prop_assert_eq!(used(&pool), places.iter().map(|place| place.1).sum::<usize>());
        }
        pieces.clear();
        prop_assert!(pool.allocate(pool.capacity()).is_some());
    }
}
