//! Locks on the names and objects that operations use whose outcome must be found out after a crash.
//!
//! While an operation that must run once is under way, no other operation of this gateway changes the names and
//! objects that show its outcome. So after a crash these names and objects are as that operation left them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use files::Handle;
use rustc_hash::FxHashMap;

/// A name or an object that an operation uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A name in a directory.
    Name(Handle, Vec<u8>),
    /// The content or the attributes of an object.
    Object(Handle),
}

/// The names and objects that are in use now.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// The number of operations that share a key; [`ALONE`] if an operation has the key for itself.
    held: Mutex<FxHashMap<Key, usize>>,
    freed: Condvar,
}

const ALONE: usize = usize::MAX;

/// The keys that one operation uses; released on drop.
pub(super) struct Held<'a> {
    busy: &'a Busy,
    keys: Vec<Key>,
}

impl Busy {
    /// Waits until no other operation uses any of these keys, and takes them for one operation alone.
    pub(super) fn alone(&self, mut keys: Vec<Key>) -> Held<'_> {
        // The two names of a rename may be the same.
        if let [first, second] = &keys[..]
            && first == second
        {
            keys.truncate(1);
        }
        self.hold(keys, |count| count.is_none(), |_| ALONE)
    }

    /// Waits until no operation has any of these keys for itself, and takes the keys together with others.
    pub(super) fn beside_others(&self, keys: Vec<Key>) -> Held<'_> {
        let is_free = |count: Option<usize>| count != Some(ALONE);
        self.hold(keys, is_free, |count| count.unwrap_or(0) + 1)
    }

    fn hold(
        &self,
        keys: Vec<Key>,
        is_free: impl Fn(Option<usize>) -> bool,
        more: impl Fn(Option<usize>) -> usize,
    ) -> Held<'_> {
        let mut held = self.held();
        while !keys.iter().all(|key| is_free(held.get(key).copied())) {
            let waited = self.freed.wait(held);
            held = waited.unwrap_or_else(PoisonError::into_inner);
        }
        for key in &keys {
            let count = more(held.get(key).copied());
            held.insert(key.clone(), count);
        }
        Held { busy: self, keys }
    }

    fn held(&self) -> MutexGuard<'_, FxHashMap<Key, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.keys.is_empty() {
            return;
        }
        let mut held = self.busy.held();
        for key in &self.keys {
            match held.get_mut(key) {
                Some(count) if *count != ALONE && *count > 1 => *count -= 1,
                _ => drop(held.remove(key)),
            }
        }
        drop(held);
        self.busy.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn key(name: &str) -> Key {
        Key::Name(Handle::ROOT, name.into())
    }

    #[test]
    fn who_is_alone_lets_nobody_in_before_the_end() {
        let busy = Busy::default();
        let (sender, order) = mpsc::channel();
        let alone = busy.alone(vec![key("a"), key("b")]);
        thread::scope(|scope| {
            let (busy, second) = (&busy, sender.clone());
            scope.spawn(move || {
                let _held = busy.beside_others(vec![key("b")]);
                second.send("second").unwrap();
            });
            let _other = busy.alone(vec![key("c")]);
            sender.send("first").unwrap();
            drop(alone);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["first", "second"]);
        assert!(busy.held().is_empty());
    }

    #[test]
    fn operations_side_by_side_and_one_name_given_twice_wait_for_nobody() {
        let busy = Busy::default();
        let first = busy.beside_others(vec![key("a")]);
        let second = busy.beside_others(vec![key("a")]);
        drop(first);
        assert_eq!(busy.held().get(&key("a")), Some(&1));
        drop(second);
        drop(busy.alone(vec![key("a"), key("a")]));
        assert!(busy.held().is_empty());
    }
}
