//! Parts of lists of spans.

use sys::span::Span;

/// Returns `len` bytes of the list from `skip` on, or as many as there are.
pub(crate) fn part(spans: &[Span], mut skip: usize, mut len: usize) -> Vec<Span> {
    let mut parts = Vec::new();
    for span in spans {
        let from = skip.min(span.len());
        skip -= from;
        let count = len.min(span.len() - from);
        len -= count;
        if count > 0 {
            parts.extend(span.part(from..from + count));
        }
    }
    parts
}

/// Copies the beginning of one list to the beginning of another. Returns the number of bytes.
pub(crate) fn copy(from: &[Span], to: &[Span]) -> usize {
    let mut done = 0;
    for source in from {
        let mut at = 0;
        for target in part(to, done, source.len()) {
            if let Some(rest) = source.part(at..source.len()) {
                at += rest.copy_to(&target);
            }
        }
        done += at;
        if at < source.len() {
            break;
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(lens: &[usize], first: u8) -> (Vec<Span>, Vec<u8>) {
        let mut next = first;
        let pieces: Vec<Vec<u8>> = lens
            .iter()
            .map(|&len| {
                (0..len)
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect()
            })
            .collect();
        let whole = pieces.concat();
        (pieces.into_iter().map(Span::from).collect(), whole)
    }

    fn bytes(spans: &[Span]) -> Vec<u8> {
        spans.iter().flat_map(Span::to_vec).collect()
    }

    proptest! {
        #[test]
        fn a_part_of_a_list_is_that_part_of_its_bytes(
            lens in prop::collection::vec(0..20_usize, 0..6),
            (skip, len) in (0..100_usize, 0..100_usize),
        ) {
            let (spans, whole) = list(&lens, 0);
            let expected: Vec<u8> = whole.into_iter().skip(skip).take(len).collect();
            prop_assert_eq!(bytes(&part(&spans, skip, len)), expected);
        }

        #[test]
        fn a_copy_fills_the_target_as_far_as_the_source_reaches(
            from in prop::collection::vec(0..20_usize, 0..6),
            to in prop::collection::vec(0..20_usize, 0..6),
        ) {
            let (source, sent) = list(&from, 0);
            let (target, mut expected) = list(&to, 100);
            let count = copy(&source, &target);
            prop_assert_eq!(count, sent.len().min(expected.len()));
            expected[..count].copy_from_slice(&sent[..count]);
            prop_assert_eq!(bytes(&target), expected);
        }
    }
}
