//! A segment of huge pages if the system has some, and of other pages if not.

use std::fs;

use zoidd::HugePages;

use crate::bed::{Bed, immediate, pattern, pending};

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

fn number(file: &str) -> u64 {
    let text = fs::read_to_string(format!("{POOL}/{file}"));
    text.map_or(0, |text| text.trim().parse().unwrap())
}

/// Additional pages in the system's reserve, until dropped.
struct Reserved {
    before: u64,
}

impl Reserved {
    /// Reserves pages, if this process may change the reserve and the long suite was asked for.
    fn more(count: u64) -> Option<Reserved> {
        if std::env::var("FINERAIL_LONG").as_deref() != Ok("1") {
            return None;
        }
        let before = number("nr_hugepages");
        let reserved = Reserved { before };
        let wanted = before + count;
        fs::write(format!("{POOL}/nr_hugepages"), wanted.to_string()).ok()?;
        (number("nr_hugepages") == wanted).then_some(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        fs::write(format!("{POOL}/nr_hugepages"), self.before.to_string()).unwrap();
    }
}

fn bed(total: u64, pages: HugePages) -> Bed {
    Bed::with(|options| {
        options.total = total;
        options.huge_pages = pages;
    })
}

/// Exchanges messages in both directions, in the segment and through copies, and unexpected ones.
fn exchange(bed: &Bed) {
    let (server, client) = bed.greeted_pair();
    let bytes = pattern(300_000);
    for outside in [false, true] {
        let room = match outside {
            false => server.memory(bytes.len()),
            true => server.outside(bytes.len()),
        };
        let op = pending(server.receive(1, room));
        immediate(client.send(1, bytes.clone()));
        let done = server.wait(op);
        assert_eq!(done.result, Ok(bytes.len()));
        let sent = done.payload;
        let op = pending(server.send(2, sent));
        let room = client.outside(bytes.len());
        let (received, payload) = client.finish(client.receive(2, room));
        assert_eq!(
            (received, payload.into_buffer().to_vec()),
            (Ok(bytes.len()), bytes.clone())
        );
        assert_eq!(server.wait(op).result, Ok(bytes.len()));
    }
    immediate(client.unexpected(3, &bytes[..8000]));
    assert_eq!(server.next_unexpected().data[..], bytes[..8000]);
}

/// One test, because both parts use or change the state of the whole system.
// [MEM-30]
#[test]
fn huge_pages_are_taken_where_there_are_and_others_where_not() {
    without_a_reserve();
    with_a_reserve();
}

fn without_a_reserve() {
    // More than any reserve has.
    let free = number("free_hugepages");
    let total = (free << 21) + (64 << 20);
    for pages in [HugePages::Auto, HugePages::Huge2M, HugePages::Huge1G] {
        let bed = bed(total, pages);
        assert_eq!(
            bed.metric("zoidd_segment_huge_page_bytes"),
            0.0,
            "{pages:?}"
        );
        exchange(&bed);
    }
}

fn with_a_reserve() {
    let Some(_reserved) = Reserved::more(40) else {
        println!("skipped: FINERAIL_LONG=1 and the right to write {POOL}/nr_hugepages are needed");
        return;
    };
    for pages in [HugePages::Auto, HugePages::Huge2M] {
        let free = number("free_hugepages");
        let mut bed = bed(64 << 20, pages);
        assert_eq!(bed.metric("zoidd_segment_huge_page_bytes"), 2_097_152.0);
        assert_eq!(number("free_hugepages"), free - 33);
        exchange(&bed);
        bed.restart();
        exchange(&bed);
        drop(bed);
        assert_eq!(number("free_hugepages"), free);
    }
}
