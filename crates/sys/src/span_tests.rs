//! Spans, leases and vectored calls.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn span(bytes: &[u8]) -> Span {
    Span::from(bytes.to_vec())
}

#[test]
fn zeroed_memory_is_zero_aligned_and_of_the_length_asked_for() {
    for len in [0, 1, 63, 64, 65, 4097] {
        let span = Span::zeroed(len).unwrap();
        assert_eq!(span.len(), len);
        assert_eq!(span.addresses().start % ALIGNMENT, 0);
        assert_eq!(span.to_vec(), vec![0; len]);
    }
}

#[test]
fn pages_begin_at_a_page_whatever_their_length() {
    let spans = [0, 1, 4095, 4096, 4097, 1 << 20].map(|len| (len, Span::pages(len).unwrap()));
    for (len, span) in &spans {
        assert_eq!(span.addresses().start % PAGE, 0, "{len}");
        assert_eq!(span.to_vec(), vec![0; *len]);
    }
}

#[test]
fn more_memory_than_there_is_is_an_error() {
    let refused = Span::zeroed(usize::MAX).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
    assert!(Span::zeroed(isize::MAX as usize - 4096).is_err());
}

#[test]
fn a_part_outlives_the_span_it_was_made_from() {
    let part = span(b"abcdef").part(2..5).unwrap();
    assert_eq!(part.to_vec(), b"cde");
}

#[test]
fn a_part_that_is_not_all_inside_is_rejected() {
    let whole = span(b"abcdef");
    assert!(whole.part(2..7).is_none());
    assert!(whole.part(7..7).is_none());
    assert!(whole.part(6..6).is_some());
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is tested")]
    let reversed = 5..2;
    assert!(whole.part(reversed).is_none());
}

#[test]
fn inside_means_every_byte() {
    let whole = span(b"abcdef");
    let range = whole.addresses();
    assert!(whole.is_inside(&range));
    assert!(whole.part(1..6).unwrap().is_inside(&range));
    assert!(!whole.is_inside(&(range.start + 1..range.end)));
    assert!(!whole.is_inside(&(range.start..range.end - 1)));
}

#[test]
fn copies_end_at_the_shorter_side() {
    let target = Span::zeroed(4).unwrap();
    assert_eq!(target.copy_in(b"abcdef"), 4);
    assert_eq!(target.copy_in(b"xy"), 2);
    assert_eq!(target.to_vec(), b"xycd");
    let mut short = [0; 3];
    assert_eq!(target.copy_out(&mut short), 3);
    assert_eq!(&short, b"xyc");
    assert_eq!(span(b"12").copy_to(&target), 2);
    assert_eq!(target.to_vec(), b"12cd");
}

#[test]
fn a_copy_within_one_memory_may_overlap() {
    let whole = span(b"abcdef");
    whole
        .part(0..4)
        .unwrap()
        .copy_to(&whole.part(2..6).unwrap());
    assert_eq!(whole.to_vec(), b"ababcd");
}

#[test]
fn an_exclusive_span_comes_back_without_a_copy() {
    let mut own = Exclusive::from(b"abc".to_vec());
    own[1] = b'X';
    let address = own.addresses();
    let again = Exclusive::reclaim(own.into_span());
    assert_eq!(again.addresses(), address);
    assert_eq!(&*again, b"aXc");
}

#[test]
fn a_span_with_another_owner_is_reclaimed_as_a_copy() {
    let shared = span(b"abc");
    let other = shared.clone();
    let mut own = Exclusive::reclaim(shared);
    own[0] = b'X';
    assert_eq!(other.to_vec(), b"abc");
    assert_ne!(own.addresses(), other.addresses());
}

#[test]
fn a_mapping_is_never_exclusive() {
    let keeper: Arc<[u8; 4]> = Arc::new([7; 4]);
    let start = NonNull::from(&*keeper).cast();
    #[expect(unsafe_code, reason = "the constructor under test")]
    // SAFETY: `keeper` keeps the four bytes, which are only read below.
    let shared = unsafe { Span::kept(start, 4, keeper) };
    let address = shared.addresses();
    let own = Exclusive::reclaim(shared);
    assert_eq!(&*own, &[7; 4]);
    assert_ne!(own.addresses(), address);
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn leases_do_not_overlap_and_return_when_the_last_span_goes() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let leases = Leases::new(Span::zeroed(100).unwrap()).unwrap();
    let lease = |range| leases.lease(range, OnDrop(Arc::clone(&dropped)));
    let first = lease(10..20).unwrap();
    for overlapping in [10..20, 5..11, 19..25, 12..13, 0..100, 15..15] {
        assert!(lease(overlapping.clone()).is_none(), "{overlapping:?}");
    }
    assert!(lease(20..101).is_none());
    let _beside = (lease(0..10).unwrap(), lease(20..21).unwrap());

    let refused = dropped.load(Ordering::Relaxed);
    let clone = first.part(0..3).unwrap();
    drop(first);
    assert_eq!(dropped.load(Ordering::Relaxed), refused);
    drop(clone);
    assert_eq!(dropped.load(Ordering::Relaxed), refused + 1);
    assert!(lease(10..20).is_some());
}

#[test]
fn a_lease_becomes_exclusive_without_a_copy_and_its_bytes_stay_in_the_region() {
    let leases = Leases::new(Span::zeroed(16).unwrap()).unwrap();
    let mut own = Exclusive::reclaim(leases.lease(4..8, ()).unwrap());
    own.copy_from_slice(b"abcd");
    assert_eq!(own.addresses().start, leases.addresses().start + 4);
    drop(own);
    assert_eq!(leases.lease(4..8, ()).unwrap().to_vec(), b"abcd");
}

#[test]
fn a_region_of_which_there_is_another_span_is_not_leased() {
    // Otherwise safe code had two slices of the same bytes, or copied bytes below a slice.
    let region = Span::zeroed(64).unwrap();
    assert!(Leases::new(region.clone()).is_none());
    let part = region.part(10..20).unwrap();
    assert!(Leases::new(region).is_none());
    let one = Leases::new(part).unwrap();
    let lease = one.lease(0..4, ()).unwrap();
    assert!(Leases::new(lease.clone()).is_none());
    let (below, beside) = (Leases::new(lease).unwrap(), one.lease(0..4, ()));
    assert!(beside.is_none());
    assert!(below.lease(0..4, ()).is_some());
}

#[test]
fn copies_of_the_same_bytes_by_several_threads_are_old_bytes_new_bytes_or_a_mix() {
    let shared = Span::zeroed(4096).unwrap();
    std::thread::scope(|scope| {
        for value in 1..=3_u8 {
            let shared = &shared;
            scope.spawn(move || {
                let mut bytes = [0; 4096];
                for _ in 0..50 {
                    shared.copy_in(&[value; 4096]);
                    shared.copy_out(&mut bytes);
                    assert!(bytes.iter().all(|byte| (1..=3).contains(byte)));
                }
            });
        }
    });
}

#[test]
fn head_and_spans_are_written_in_order_and_read_back_in_parts() {
    let (near, far) = UnixStream::pair().unwrap();
    let spans = [span(b"abc"), span(b""), span(b"defg")];
    assert_eq!(send(&near, b"12", &spans, 0).unwrap(), 9);
    assert_eq!(write(&near, b"12", &spans, 1).unwrap(), 8);
    assert_eq!(write(&near, b"12", &spans, 4).unwrap(), 5);

    let into = [Span::zeroed(3).unwrap(), Span::zeroed(10).unwrap()];
    let mut tail = [0; 20];
    assert_eq!(read(&far, &into, 2, &mut tail).unwrap(), 22);
    assert_eq!(into[0].to_vec(), b"\0\x001");
    assert_eq!(into[1].to_vec(), b"2abcdefg2a");
    assert_eq!(&tail[..11], b"bcdefgcdefg");
}

#[test]
fn a_list_longer_than_one_call_takes_is_written_up_to_there() {
    let (near, _far) = UnixStream::pair().unwrap();
    let spans: Vec<Span> = (0..PARTS_MAX + 10).map(|_| span(b"x")).collect();
    assert_eq!(send(&near, b"", &spans, 0).unwrap(), PARTS_MAX);
    let rest = send(&near, b"", &spans, PARTS_MAX).unwrap();
    assert_eq!(rest, 10);
}

#[test]
fn the_tail_waits_for_every_span() {
    let (near, far) = UnixStream::pair().unwrap();
    let into: Vec<Span> = (0..PARTS_MAX).map(|_| Span::zeroed(1).unwrap()).collect();
    send(&near, &[1; PARTS_MAX + 1], &[], 0).unwrap();
    let mut tail = [0];
    assert_eq!(receive(&far, &into, 0, &mut tail).unwrap(), PARTS_MAX);
    assert_eq!(tail, [0]);
}

#[test]
fn a_closed_socket_is_an_error_and_no_signal() {
    let (near, far) = UnixStream::pair().unwrap();
    drop(far);
    let refused = send(&near, b"x", &[], 0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn bytes_are_scattered_and_gathered_across_borders() {
    let spans = [
        Span::zeroed(3).unwrap(),
        Span::zeroed(0).unwrap(),
        Span::zeroed(4).unwrap(),
    ];
    assert_eq!(scatter(&spans, 0, b"abcde"), 5);
    assert_eq!(scatter(&spans, 5, b"fghi"), 2);
    assert_eq!(scatter(&spans, 7, b"x"), 0);
    let mut all = [0; 9];
    assert_eq!(gather(&spans, 0, &mut all), 7);
    assert_eq!(&all, b"abcdefg\0\0");
    let mut some = [0; 3];
    assert_eq!(gather(&spans, 2, &mut some), 3);
    assert_eq!(&some, b"cde");
}

#[test]
fn a_vector_comes_back_without_a_copy_unless_a_part_of_it_is_alive() {
    let mut bytes = Vec::with_capacity(100);
    bytes.extend_from_slice(b"vector");
    let start = bytes.as_ptr();
    let span = Span::from(bytes);
    let part = span.part(0..3).unwrap();
    let copy = span.clone().into_vec();
    assert_eq!(copy, b"vector");
    assert_ne!(copy.as_ptr(), start, "the part is alive");
    drop(part);
    let bytes = span.into_vec();
    assert_eq!(bytes, b"vector");
    assert_eq!((bytes.as_ptr(), bytes.capacity()), (start, 100));
    assert_eq!(Span::from(Vec::new()).into_vec(), b"");
}
