//! Tests of objects, their names, and the limit of the table.

use super::*;

fn identity(file: u64, born: i64, kind: Kind) -> Identity {
    let nanoseconds = 0;
    Identity {
        kind,
        filesystem: 1,
        file,
        born: Timestamp {
            seconds: born,
            nanoseconds,
        },
    }
}

fn at(file: u64) -> (usize, Handle) {
    (0, Handle([file as u8; 32]))
}

fn table() -> Table {
    Table::new([7; 8], 2, 100)
}

fn paths(table: &Table, id: Id) -> Vec<String> {
    let text = |way: Way| String::from_utf8(way.join(&b'/')).unwrap();
    table.ways(id).into_iter().map(text).collect()
}

#[test]
fn another_object_with_the_same_number_is_another() {
    let mut table = table();
    let old = table.note(identity(5, 1, Kind::File), 1, Some((ROOT, b"a")), at(1));
    let handle = table.handle_of(old);
    let new = table.note(identity(5, 2, Kind::File), 1, Some((ROOT, b"a")), at(2));
    assert_ne!(old, new);
    assert_eq!(table.find(handle).map(|(id, _)| id), Err(Errno::ESTALE));
    // A server that does not know the time of creation returns the same object.
    let again = table.note(identity(5, 0, Kind::File), 1, None, at(3));
    assert_eq!(again, new);
}

#[test]
fn a_directory_takes_along_what_is_below_it() {
    let mut table = table();
    let directory = identity(2, 1, Kind::Directory);
    let file = identity(3, 1, Kind::File);
    let below = table.note(directory, 2, Some((ROOT, b"d")), at(1));
    let id = table.note(file, 1, Some((below, b"f")), at(2));
    table.moved(
        &directory,
        (ROOT, (*b"d").into()),
        (ROOT, (*b"e").into()),
        false,
    );
    assert_eq!(paths(&table, id), ["e/f"]);
    table.removed(&file, below, b"f");
    assert_eq!(
        table.find(table.handle_of(id)).map(|(id, _)| id),
        Err(Errno::ESTALE)
    );
}

#[test]
fn a_file_keeps_its_other_names_and_an_exchange_swaps_two() {
    let mut table = table();
    let (one, other) = (identity(2, 1, Kind::File), identity(3, 1, Kind::File));
    let id = table.note(one, 2, Some((ROOT, b"a")), at(1));
    table.note(one, 2, Some((ROOT, b"b")), at(1));
    let second = table.note(other, 1, Some((ROOT, b"c")), at(2));
    assert_eq!(paths(&table, id), ["b", "a"]);
    table.moved(&one, (ROOT, (*b"b").into()), (ROOT, (*b"c").into()), true);
    assert_eq!(
        (paths(&table, id), paths(&table, second)),
        (vec!["c".to_owned(), "a".to_owned()], vec!["b".to_owned()])
    );
    table.removed(&one, ROOT, b"c");
    assert_eq!(paths(&table, id), ["a"]);
}

#[test]
fn what_is_not_used_is_forgotten_but_no_directory_of_known_objects() {
    let mut table = Table::new([7; 8], 1, 10);
    let directory = table.note(
        identity(2, 1, Kind::Directory),
        2,
        Some((ROOT, b"d")),
        at(1),
    );
    let mut last = directory;
    for file in 10..1000 {
        let name = file.to_string();
        last = table.note(
            identity(file, 1, Kind::File),
            1,
            Some((directory, name.as_bytes())),
            at(1),
        );
    }
    assert!(table.by_number.len() <= 10 && table.slots.len() <= 12);
    assert!(table.by_spot.len() <= 10);
    assert!(table.known.len() <= 2 * 10 + QUEUE_SLACK + 1);
    assert_eq!(paths(&table, last), ["d/999"]);
}

#[test]
fn a_gateway_of_a_forgotten_change_is_not_forgotten() {
    let mut table = Table::new([7; 8], 2, 3);
    let id = table.note(identity(10, 1, Kind::File), 1, Some((ROOT, b"a")), at(1));
    table.changed(id, 1, 0);
    for file in 20..40 {
        table.note(identity(file, 1, Kind::File), 1, None, at(1));
    }
    assert_eq!(table.forgotten_dirty(), [1]);
}

#[test]
fn a_change_that_came_meanwhile_is_not_settled() {
    let mut table = table();
    let id = table.note(identity(10, 1, Kind::File), 1, Some((ROOT, b"a")), at(1));
    table.changed(id, 1, 0);
    let dirty = table.dirty(id);
    table.changed(id, 1, 0);
    table.settled(id, &dirty[0]);
    assert_eq!(table.dirty(id).len(), 1);
    table.settled(id, &table.dirty(id)[0].clone());
    assert_eq!(table.dirty(id), []);
}
