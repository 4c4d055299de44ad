//! The interface itself: addresses, memory, options, the end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::address::{Addresses, Released, Target, check_length, scheme};
use crate::builder::Builder;
use crate::error::Error;
use crate::id::{Address, ContextId, OpId};
use crate::method::{Factory, Method, Role};
use crate::ops::Ops;
use crate::option::{Question, Setting};
use crate::payload::{Buffer, Memory};

/// The interface. All of it may be called from any thread at any time; only an operation must not
/// be tested by two threads at once.
///
/// Dropping it is [`Bmi::finalize`].
pub struct Bmi {
    pub(crate) slots: Vec<Slot>,
    pub(crate) ops: Arc<Ops>,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) auto_reference: bool,
    pub(crate) closed: AtomicBool,
    /// Whose turn it is to be asked first for unexpected messages.
    pub(crate) turn: AtomicUsize,
}

/// A method that may be used, and is once it has started.
pub(crate) struct Slot {
    pub(crate) factory: Box<dyn Factory>,
    /// Whether looking up an address may start it.
    pub(crate) usable: bool,
    pub(crate) method: OnceLock<Arc<dyn Method>>,
    pub(crate) starting: Mutex<()>,
    /// A test of a context ends when an unexpected message waits.
    pub(crate) check_unexpected: AtomicBool,
}

impl Bmi {
    /// Begins with no method, as a client.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Ends the interface: operations and addresses are forgotten, memory that was posted is not
    /// touched any more, and tests that sleep return [`Error::NetDown`], as every later call.
    pub fn finalize(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        for (_, method) in self.active() {
            method.close();
        }
        self.ops.clear();
        self.addresses().clear();
    }

    /// Opens a set of operations that are tested together.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: sixteen are open. [`Error::NetDown`].
    pub fn open_context(&self) -> Result<ContextId, Error> {
        self.check_open()?;
        self.ops.open_context()
    }

    /// Closes a context. Its operations live on, and can still be collected by their ids. One
    /// that is not open is ignored.
    pub fn close_context(&self, context: ContextId) {
        self.ops.close_context(context);
    }

    /// Whether a context is open.
    #[must_use]
    pub fn is_open(&self, context: ContextId) -> bool {
        self.ops.is_open(context)
    }

    /// The address of a string such as `tcp://node7:3334`, or of a list of the ways to one peer,
    /// separated by commas: the first whose method there is. The same string has the same address.
    /// Starts the method of its scheme, if it has not started.
    ///
    /// # Errors
    ///
    /// [`Error::NoProtoOpt`]: there is no method of the scheme. [`Error::Inval`]: no scheme, or the
    /// method refuses the address. [`Error::NameTooLong`]: longer than 255 bytes. What the method
    /// fails to start with.
    pub fn lookup(&self, name: &str) -> Result<Address, Error> {
        self.check_open()?;
        check_length(name)?;
        if let Some(known) = self.addresses().by_name(name) {
            return Ok(known);
        }
        let (index, part) = self.way(name)?;
        let method = match self.slots[index].method.get() {
            Some(method) => method,
            None => self.start(index, Role::Client, false)?,
        };
        // Not under the lock: resolving a host name may take seconds.
        let peer = method.lookup(part)?;
        let target = Target {
            method: index,
            peer,
        };
        self.addresses().looked_up(name, target)
    }

    /// The first of a list of addresses whose method there is, and the index of the method.
    fn way<'a>(&self, list: &'a str) -> Result<(usize, &'a str), Error> {
        for part in list.split(',') {
            let scheme = scheme(part)?;
            let of_scheme = |slot: &Slot| slot.usable && slot.factory.scheme() == scheme;
            let serves = |slot: &Slot| of_scheme(slot) && slot.factory.serves(part);
            if let Some(index) = self.slots.iter().position(serves) {
                return Ok((index, part));
            }
            if self.slots.iter().any(of_scheme) {
                return Err(Error::Inval);
            }
            // Schemes are as they are written: this is one of ours, spelt wrongly.
            let is_close = |slot: &Slot| slot.factory.scheme().eq_ignore_ascii_case(scheme);
            if self.slots.iter().any(is_close) {
                return Err(Error::Inval);
            }
        }
        Err(Error::NoProtoOpt)
    }

    /// The string that an address was looked up as; empty when it was learnt from an unexpected
    /// message; `None` when there is no such address.
    #[must_use]
    pub fn name(&self, address: Address) -> Option<String> {
        self.addresses().name(address).map(str::to_owned)
    }

    /// A name to print for an address, also for one that was learnt from an unexpected message.
    #[must_use]
    pub fn peer_name(&self, address: Address) -> Option<String> {
        let (method, target) = self.resolve(address)?;
        Some(method.peer_name(target.peer))
    }

    /// Whether an address is in a range: the one of `wildcard` when only the first `bits` bits
    /// are compared.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address or no such range. [`Error::NoSys`]: the method's
    /// addresses have no ranges.
    pub fn in_range(&self, address: Address, wildcard: &str, bits: u32) -> Result<bool, Error> {
        let (method, target) = self.resolve(address).ok_or(Error::Inval)?;
        method.in_range(target.peer, wildcard, bits)
    }

    /// Memory from which messages to an address are sent, or into which its messages are
    /// received, without being copied. It is zeroed.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address. [`Error::NoMem`].
    pub fn allocate(&self, address: Address, len: usize) -> Result<Buffer, Error> {
        self.check_open()?;
        let (method, target) = self.resolve(address).ok_or(Error::Inval)?;
        let span = method.allocate(target.peer, len)?;
        Ok(Buffer::reclaim(span, Memory::PreAllocated))
    }

    /// Changes an option, of an address or, without one, of every active method in turn until one
    /// refuses.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address, no active method, a value that cannot be, or more
    /// references given back than there were.
    pub fn set(&self, address: Option<Address>, setting: &Setting) -> Result<(), Error> {
        self.check_open()?;
        let Some(address) = address else {
            return self.set_all(setting);
        };
        let (method, target) = self.resolve(address).ok_or(Error::Inval)?;
        match setting {
            Setting::IncrementReferences => self.addresses().refer(address),
            Setting::DecrementReferences => self.dereference(address),
            Setting::DropAddress => {
                self.drop_address(address, false);
                Ok(())
            }
            _ => {
                self.note(target.method, setting);
                method.set(Some(target.peer), setting)
            }
        }
    }

    /// Answers a question about an address, or about the methods.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address, or none where one is needed. [`Error::NoSys`]: nobody
    /// knows the answer.
    pub fn get(&self, address: Option<Address>, question: Question) -> Result<u64, Error> {
        self.check_open()?;
        let resolved = match address {
            Some(address) => Some(self.resolve(address).ok_or(Error::Inval)?),
            None => None,
        };
        match (question, resolved) {
            (Question::MaxSize, _) => Ok(self.max_size() as u64),
            (Question::UnexpectedSize, Some((method, _))) => Ok(method.limits().unexpected as u64),
            (Question::IsDisconnected, Some((method, target))) => {
                Ok(u64::from(method.may_forget(target.peer)))
            }
            (Question::UnexpectedSize | Question::IsDisconnected, None) => Err(Error::Inval),
            (_, Some((method, target))) => method.get(Some(target.peer), question),
            (_, None) => self.first_answer(question),
        }
    }

    /// The methods that were added, without the prefix `bmi_`.
    pub fn method_names(&self) -> impl Iterator<Item = &'static str> {
        let name = |slot: &Slot| slot.factory.name().trim_start_matches("bmi_");
        self.slots.iter().map(name)
    }

    /// Whether the method of an address may get unexpected messages in this process; `None` when
    /// there is no such address.
    #[must_use]
    pub fn receives_unexpected(&self, address: Address) -> Option<bool> {
        let (method, _) = self.resolve(address)?;
        Some(method.traits().receives_unexpected)
    }

    /// How often a method completed an operation that was not pending. Anything but 0 is a defect
    /// of a method.
    #[must_use]
    pub fn stray_completions(&self) -> u64 {
        self.ops.strays()
    }

    /// Asks for the end of an operation, which must be collected nevertheless: its result is
    /// [`Error::Cancel`], or its own when it was too late. An id that names nothing is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method cannot cancel. [`Error::NetDown`].
    pub fn cancel(&self, op: OpId) -> Result<(), Error> {
        self.check_open()?;
        let Some(index) = self.ops.method_of(op) else {
            return Ok(());
        };
        match self.slots[index].method.get() {
            Some(method) => method.cancel(op),
            None => Ok(()),
        }
    }

    /// The methods that have started, with their indices.
    pub(crate) fn active(&self) -> impl Iterator<Item = (usize, &Arc<dyn Method>)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.method.get()?)))
    }

    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::NetDown);
        }
        Ok(())
    }

    /// Why an id names nothing: it never did or was collected, or another thread has just finalized the interface.
    pub(crate) fn unknown(&self) -> Error {
        self.check_open().err().unwrap_or(Error::Inval)
    }

    pub(crate) fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn resolve(&self, address: Address) -> Option<(&Arc<dyn Method>, Target)> {
        let target = self.addresses().target(address)?;
        Some((self.slots.get(target.method)?.method.get()?, target))
    }

    /// Forgets an address, here and in its method.
    pub(crate) fn drop_address(&self, address: Address, unless_referred: bool) {
        let removed = self.addresses().remove(address, unless_referred);
        if let Some(target) = removed
            && let Some(method) = self.slots[target.method].method.get()
        {
            method.forget(target.peer);
        }
    }

    fn dereference(&self, address: Address) -> Result<(), Error> {
        let released = self.addresses().release(address)?;
        if let Released::Last(target) = released
            && let Some(method) = self.slots[target.method].method.get()
            && method.may_forget(target.peer)
        {
            self.drop_address(address, true);
        }
        Ok(())
    }

    fn set_all(&self, setting: &Setting) -> Result<(), Error> {
        let mut any = false;
        for (index, method) in self.active() {
            any = true;
            self.note(index, setting);
            method.set(None, setting)?;
        }
        if any { Ok(()) } else { Err(Error::Inval) }
    }

    /// Keeps what the interface itself goes by.
    fn note(&self, index: usize, setting: &Setting) {
        if let Setting::CheckUnexpected(check) = setting {
            let slot = &self.slots[index];
            slot.check_unexpected.store(*check, Ordering::Relaxed);
        }
    }

    fn max_size(&self) -> usize {
        self.active()
            .map(|(_, method)| method.limits().expected)
            .min()
            .unwrap_or(0)
    }

    fn first_answer(&self, question: Question) -> Result<u64, Error> {
        self.active()
            .find_map(|(_, method)| method.get(None, question).ok())
            .ok_or(Error::NoSys)
    }
}

impl Drop for Bmi {
    fn drop(&mut self) {
        self.finalize();
    }
}

impl std::fmt::Debug for Bmi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.method_names()).finish()
    }
}
