//! The interface: addresses, memory, options, finalization.

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

/// A BMI interface. Any thread may call any function at any time, with one exception: two threads must not
/// test the same operation at once.
///
/// Dropping the interface is the same as [`Bmi::finalize`].
// [BMI-55]
pub struct Bmi {
    pub(crate) slots: Vec<Slot>,
    pub(crate) ops: Arc<Ops>,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) auto_reference: bool,
    pub(crate) closed: AtomicBool,
    /// Which method is asked first for unexpected messages; advances with each test.
    pub(crate) turn: AtomicUsize,
}

/// A method that may be used, and the running method once it has started.
pub(crate) struct Slot {
    pub(crate) factory: Box<dyn Factory>,
    /// Whether a lookup may start the method.
    pub(crate) usable: bool,
    pub(crate) method: OnceLock<Arc<dyn Method>>,
    pub(crate) starting: Mutex<()>,
    /// Whether a test of a context returns when an unexpected message waits.
    pub(crate) check_unexpected: AtomicBool,
}

impl Bmi {
    /// Returns a builder with no method, in the client role.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Ends the interface. Operations and addresses are forgotten, and posted memory is no longer touched.
    /// Sleeping tests and all later calls return [`Error::NetDown`].
    // [BMI-52]
    pub fn finalize(&self) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        for (_, method) in self.active() {
            method.close();
        }
        // [BMI-53]
        self.ops.clear();
        self.addresses().clear();
    }

    /// Opens a context: a set of operations that are tested together.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`]: sixteen contexts are open. [`Error::NetDown`].
    pub fn open_context(&self) -> Result<ContextId, Error> {
        self.check_open()?;
        self.ops.open_context()
    }

    /// Closes a context. Its operations continue and can still be collected by their ids. A context that is
    /// not open is ignored.
    pub fn close_context(&self, context: ContextId) {
        self.ops.close_context(context);
    }

    /// Whether a context is open.
    #[must_use]
    pub fn is_open(&self, context: ContextId) -> bool {
        self.ops.is_open(context)
    }

    /// Looks up an address such as `tcp://node7:3334`, or a comma-separated list of addresses of one peer, of
    /// which the first with a known method is used. The same string always yields the same address. Starts
    /// the method of the scheme if it has not started.
    ///
    /// # Errors
    ///
    /// [`Error::NoProtoOpt`]: no method has the scheme. [`Error::Inval`]: there is no scheme, or the method
    /// rejects the address. [`Error::NameTooLong`]: longer than 255 bytes. Errors of starting the method.
    pub fn lookup(&self, name: &str) -> Result<Address, Error> {
        self.check_open()?;
        check_length(name)?;
        // [ADDR-1]
        if let Some(known) = self.addresses().by_name(name) {
            return Ok(known);
        }
        let (index, part) = self.first_known(name)?;
        let method = match self.slots[index].method.get() {
            Some(method) => method,
            None => self.start(index, Role::Client, false)?,
        };
        // Outside of the lock: resolving a host name may take seconds.
        let peer = method.lookup(part)?;
        let target = Target {
            method: index,
            peer,
        };
        self.addresses().looked_up(name, target)
    }

    /// Returns the first address of a list whose method is known, and the index of that method.
    // [ADDR-3]
    fn first_known<'a>(&self, list: &'a str) -> Result<(usize, &'a str), Error> {
        for part in list.split(',') {
            let scheme = scheme(part)?;
            let of_scheme = |slot: &Slot| slot.usable && slot.factory.scheme() == scheme;
            let serves = |slot: &Slot| of_scheme(slot) && slot.factory.serves(part);
            // [ADDR-4]
            if let Some(index) = self.slots.iter().position(serves) {
                return Ok((index, part));
            }
            if self.slots.iter().any(of_scheme) {
                return Err(Error::Inval);
            }
            // Schemes are case-sensitive: this one is a known scheme in the wrong case.
            let is_close = |slot: &Slot| slot.factory.scheme().eq_ignore_ascii_case(scheme);
            if self.slots.iter().any(is_close) {
                return Err(Error::Inval);
            }
        }
        Err(Error::NoProtoOpt)
    }

    /// Returns the string that an address was looked up as. The string is empty if the address was learnt
    /// from an unexpected message. `None`: no such address.
    // [ADDR-6]
    #[must_use]
    pub fn name(&self, address: Address) -> Option<String> {
        self.addresses().name(address).map(str::to_owned)
    }

    /// Returns a printable name of an address, also of one learnt from an unexpected message.
    // [ADDR-6]
    #[must_use]
    pub fn peer_name(&self, address: Address) -> Option<String> {
        let (method, target) = self.resolve(address)?;
        Some(method.peer_name(target.peer))
    }

    /// Returns whether the first `bits` bits of an address equal those of `wildcard`.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address, or `wildcard` is not a valid range. [`Error::NoSys`]: the method's
    /// addresses have no ranges.
    pub fn in_range(&self, address: Address, wildcard: &str, bits: u32) -> Result<bool, Error> {
        let (method, target) = self.resolve(address).ok_or(Error::Inval)?;
        method.in_range(target.peer, wildcard, bits)
    }

    /// Allocates zeroed memory that the method of an address sends from and receives into without a copy.
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

    /// Sets an option of an address. Without an address, sets the option of every active method in turn and
    /// stops at the first error.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address, no active method, an invalid value, or more references released
    /// than taken.
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
                self.store_setting(target.method, setting);
                method.set(Some(target.peer), setting)
            }
        }
    }

    /// Returns a property of an address, or of all methods.
    ///
    /// # Errors
    ///
    /// [`Error::Inval`]: no such address, or the question needs one. [`Error::NoSys`]: no method knows the
    /// answer.
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
            // [OPT-4]
            (Question::UnexpectedSize | Question::IsDisconnected, None) => Err(Error::Inval),
            (_, Some((method, target))) => method.get(Some(target.peer), question),
            (_, None) => self.first_answer(question),
        }
    }

    /// Returns the names of the methods that were added, without the prefix `bmi_`.
    pub fn method_names(&self) -> impl Iterator<Item = &'static str> {
        let name = |slot: &Slot| slot.factory.name().trim_start_matches("bmi_");
        self.slots.iter().map(name)
    }

    /// Returns whether the method of an address can receive unexpected messages in this process. `None`: no
    /// such address.
    #[must_use]
    pub fn receives_unexpected(&self, address: Address) -> Option<bool> {
        let (method, _) = self.resolve(address)?;
        Some(method.traits().receives_unexpected)
    }

    /// Returns how often a method completed an operation that was not pending. A number above 0 is a defect
    /// of a method.
    #[must_use]
    pub fn stray_completions(&self) -> u64 {
        self.ops.strays()
    }

    /// Requests the cancellation of an operation. The operation must still be collected; its result is
    /// [`Error::Cancel`], or its own result if it completed first. An id that names no operation is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::NoSys`]: the method cannot cancel. [`Error::NetDown`].
    // [BMI-40]
    pub fn cancel(&self, op: OpId) -> Result<(), Error> {
        self.check_open()?;
        // [BMI-41]
        let Some(index) = self.ops.method_of(op) else {
            return Ok(());
        };
        match self.slots[index].method.get() {
            Some(method) => method.cancel(op),
            None => Ok(()),
        }
    }

    /// Returns the methods that have started, with their indices.
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

    /// Returns the error for an id that names nothing: [`Error::NetDown`] if another thread has just
    /// finalized the interface, else [`Error::Inval`].
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
    // [OPT-9]
    pub(crate) fn drop_address(&self, address: Address, unless_referred: bool) {
        let removed = self.addresses().remove(address, unless_referred);
        if let Some(target) = removed
            && let Some(method) = self.slots[target.method].method.get()
        {
            method.forget(target.peer);
        }
    }

    // [OPT-8]
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

    // [OPT-1]
    fn set_all(&self, setting: &Setting) -> Result<(), Error> {
        let mut any = false;
        for (index, method) in self.active() {
            any = true;
            self.store_setting(index, setting);
            method.set(None, setting)?;
        }
        if any { Ok(()) } else { Err(Error::Inval) }
    }

    /// Stores a setting that the interface itself uses.
    fn store_setting(&self, index: usize, setting: &Setting) {
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

    // [OPT-3]
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
