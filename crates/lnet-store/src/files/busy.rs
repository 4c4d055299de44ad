//! Which names and objects are being used by operations that must be told apart after a crash.
//!
//! While an operation that must run once is under way, no other operation of this gateway changes what its outcome is judged
//! by. So what is found after a crash is what that operation left.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use files::Handle;
use rustc_hash::FxHashMap;

/// What an operation uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// A name in a directory.
    Name(Handle, Vec<u8>),
    /// The content or the attributes of an object.
    Object(Handle),
}

/// What is used now.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// By how many operations side by side; [`ALONE`] for one that suffers no other.
    held: Mutex<FxHashMap<Key, usize>>,
    freed: Condvar,
}

const ALONE: usize = usize::MAX;

/// What one operation uses, until this is dropped.
pub(super) struct Held<'a> {
    busy: &'a Busy,
    keys: Vec<Key>,
}

impl Busy {
    /// Waits until nobody else uses any of these.
    pub(super) fn alone(&self, mut keys: Vec<Key>) -> Held<'_> {
        // The two names of a rename may be one.
        if let [first, second] = &keys[..]
            && first == second
        {
            keys.truncate(1);
        }
        self.hold(keys, |count| count.is_none(), |_| ALONE)
    }

    /// Waits until nobody needs any of these alone.
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
