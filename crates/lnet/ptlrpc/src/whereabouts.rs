//! The table of where the targets of a file system are: who registered last with its MGS, and from which NIDs. Clients that
//! read it need not try the nodes of a target one after the other ("imperative recovery").

use lnet_types::Nid;

use crate::client::Service;
use crate::view::View;

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    pub(crate) service: Service,
    pub(crate) index: u32,
    /// The version of the table that the entry came with.
    pub(crate) version: u64,
    /// The number of the target's starts.
    pub(crate) instance: u32,
    pub(crate) nids: Vec<Nid>,
}

/// The length of an entry without its NIDs, in bytes.
const HEAD: usize = 24;

/// Returns the entries of the table, up to the first that cannot be read.
// [PTLRPC-24]
pub(crate) fn whereabouts(bytes: View<'_>) -> impl Iterator<Item = Result<Whereabouts, String>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.part(at, usize::MAX);
        if rest.bytes().is_empty() {
            return None;
        }
        let read = entry(rest).ok_or_else(|| {
            format!("the table of where the targets are cannot be read behind byte {at}")
        });
        let len = length(rest).unwrap_or(0);
        at = match &read {
            Ok(_) => at + len,
            Err(_) => bytes.bytes().len(),
        };
        Some(read)
    })
}

fn length(rest: View<'_>) -> Option<usize> {
    usize::try_from(rest.u32(16)?).ok()
}

fn entry(rest: View<'_>) -> Option<Whereabouts> {
    let len = length(rest)?;
    let service = match rest.u8(20)? {
        1 => Service::Mdt,
        2 => Service::Ost,
        _ => return None,
    };
    let (kind, size) = (rest.u8(21)?, usize::from(rest.u8(22)?));
    let count = usize::from(rest.u8(23)?);
    let is_whole = len >= HEAD + count * size && len <= rest.bytes().len();
    let nids = (0..count).map(|nth| nid(rest.part(HEAD + nth * size, size), kind));
    let nids: Option<Vec<Nid>> = nids.collect();
    is_whole.then_some(Whereabouts {
        service,
        index: rest.u32(12)?,
        version: rest.u64(0)?,
        instance: rest.u32(8)?,
        nids: nids?,
    })
}

fn nid(bytes: View<'_>, kind: u8) -> Option<Nid> {
    match kind {
        0 => Nid::from_nid4(bytes.u64(0)?),
        1 => Nid::from_wire(bytes.bytes().try_into().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first entry that a real MGS sent.
    fn live() -> Vec<u8> {
        let mut bytes = 3u64.to_le_bytes().to_vec();
        for word in [1u32, 0, 0x2c] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend([1, 1, 0x14, 1, 0, 2, 0, 2, 10, 12, 0, 1]);
        bytes.resize(44, 0);
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Result<Whereabouts, String>> {
        whereabouts(View::little(bytes)).collect()
    }

    #[test]
    fn entries_of_a_real_mgs_are_read() {
        let expected = Whereabouts {
            service: Service::Mdt,
            index: 0,
            version: 3,
            instance: 1,
            nids: vec!["10.12.0.1@tcp2".parse().unwrap()],
        };
        let twice = [live(), live()].concat();
        assert_eq!(read(&twice), [Ok(expected.clone()), Ok(expected)]);
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn nids_of_8_bytes_are_read_and_the_last_entry_may_be_stretched() {
        let mut bytes = live();
        bytes[20..24].copy_from_slice(&[2, 0, 8, 2]);
        bytes[24..32].copy_from_slice(&0x0002_0000_c0a8_010a_u64.to_le_bytes());
        bytes[32..40].copy_from_slice(&0x0002_0005_c0a8_010b_u64.to_le_bytes());
        bytes.resize(4096, 0);
        bytes[16..20].copy_from_slice(&4096u32.to_le_bytes());
        let found = read(&bytes);
        let nids = found[0].as_ref().unwrap().nids.iter();
        let nids: Vec<String> = nids.map(ToString::to_string).collect();
        assert_eq!(nids, ["192.168.1.10@tcp", "192.168.1.11@tcp5"]);
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn what_lies_ends_the_table_with_its_place() {
        for (at, byte) in [
            (16, 0),
            (16, 43),
            (17, 1),
            (18, 1),
            (19, 1),
            (20, 3),
            (21, 2),
            (22, 19),
            (23, 2),
            (24, 9),
        ] {
            let mut bytes = [live(), live()].concat();
            bytes[44 + at] = byte;
            let found = read(&bytes);
            assert_eq!(found.len(), 2, "{at}");
            let place = "the table of where the targets are cannot be read behind byte 44";
            assert_eq!(found[1], Err(place.to_owned()), "{at}");
        }
        for len in 1..44 {
            assert!(read(&live()[..len])[0].is_err(), "{len}");
        }
    }
}
