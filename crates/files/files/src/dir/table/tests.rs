use std::os::fd::OwnedFd;

use super::*;

fn identity(file: u64) -> Identity {
    Identity {
        filesystem: 1,
        file,
        born: (0, 0),
    }
}

fn open() -> Open {
    Open {
        fd: OwnedFd::from(std::fs::File::open("/").unwrap()),
        access: Access::Path,
        acting: Acting::Server,
    }
}

fn table(objects: usize, descriptors: usize) -> Table {
    Table::new([9; 8], open(), identity(0), objects, descriptors, 4)
}

fn note(table: &mut Table, file: u64, parent: Id, name: &str) -> (Object, Handle) {
    let spot = (parent, name.as_bytes().into());
    table.note(identity(file), Kind::Directory, spot)
}

#[test]
fn an_object_keeps_its_handle_under_another_name() {
    let mut table = table(10, 10);
    let (object, handle) = note(&mut table, 1, ROOT, "a");
    assert_eq!(note(&mut table, 1, ROOT, "b").1, handle);
    assert_eq!(table.find(handle).unwrap().id, object.id);
    assert_eq!(*table.way(object.id).unwrap().names[0], *b"b");
}

#[test]
fn a_handle_of_another_start_or_of_anybody_is_stale() {
    let (mut table, mut other) = (table(10, 10), table(10, 10));
    other.start = [8; 8];
    let (_, foreign) = note(&mut other, 1, ROOT, "a");
    let (_, own) = note(&mut table, 1, ROOT, "a");
    assert_eq!(table.find(foreign).unwrap_err(), Errno::ESTALE);
    for byte in 0..32 {
        let mut damaged = own;
        damaged.0[byte] ^= 1;
        assert_eq!(table.find(damaged).unwrap_err(), Errno::ESTALE, "{byte}");
    }
    assert!(table.find(Handle::ROOT).is_ok());
}

#[test]
fn the_handle_of_a_removed_object_is_stale_also_when_its_slot_is_used_again() {
    let mut table = table(10, 10);
    let (_, old) = note(&mut table, 1, ROOT, "a");
    table.removed(identity(1), (ROOT, b"a"), true);
    let (_, new) = note(&mut table, 2, ROOT, "a");
    assert_eq!(table.find(old).unwrap_err(), Errno::ESTALE);
    assert_eq!(table.find(new).unwrap().identity, identity(2));
}

#[test]
fn objects_that_are_not_used_are_forgotten_and_directories_of_known_ones_are_not() {
    let mut table = table(4, 10);
    let (parent, parent_handle) = note(&mut table, 1, ROOT, "d");
    let mut last = parent_handle;
    for file in 2..100 {
        last = note(&mut table, file, parent.id, "x").1;
        assert!(table.by_identity.len() <= 5, "{file}");
        assert!(table.known.len() <= 2 * 5 + QUEUE_SLACK);
    }
    assert!(table.find(last).is_ok());
    assert!(table.find(parent_handle).is_ok());
}

#[test]
fn descriptors_are_closed_when_there_are_too_many() {
    let mut table = table(100, 3);
    let objects: Vec<Object> = (1..50)
        .map(|file| {
            let (object, _) = note(&mut table, file, ROOT, "x");
            table.keep(object.id, Arc::new(open()));
            assert!(table.open_count <= 3);
            object
        })
        .collect();
    let open = objects
        .iter()
        .filter(|object| table.open(object.id).is_some());
    assert_eq!(open.count(), 3);
}

#[test]
fn removing_open_objects_again_and_again_leaves_no_queue_behind() {
    let mut table = table(100, 10);
    for file in 1..2000 {
        let (object, _) = note(&mut table, file, ROOT, "x");
        table.keep(object.id, Arc::new(open()));
        table.removed(object.identity, (ROOT, b"x"), true);
    }
    assert_eq!(table.open_count, 0);
    assert!(table.opened.len() <= QUEUE_SLACK + 1);
    assert!(table.known.len() <= QUEUE_SLACK + 3);
}

#[test]
fn a_place_below_itself_ends() {
    let mut table = table(10, 10);
    let (a, _) = note(&mut table, 1, ROOT, "a");
    let (b, _) = note(&mut table, 2, a.id, "b");
    // Another process moved directories while this program looked.
    note(&mut table, 1, b.id, "a");
    assert!(table.way(a.id).is_none());
}

#[test]
fn a_removed_name_is_no_place_any_longer_while_the_object_has_another() {
    let mut table = table(10, 10);
    let (object, handle) = note(&mut table, 1, ROOT, "a");
    table.removed(identity(1), (ROOT, b"other"), false);
    assert!(table.way(object.id).is_some());
    table.removed(identity(1), (ROOT, b"a"), false);
    assert!(table.way(object.id).is_none());
    assert!(table.find(handle).is_ok());
}
