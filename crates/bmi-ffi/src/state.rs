//! What a process has one of: the interface, the memory that the program holds, printed names.
//!
//! C programs name all of it by pointers and numbers, which may be wrong. So memory that was
//! handed out stands in tables, and nothing is freed, or taken for allocated, that is not there.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bmi::{Address, Bmi, Builder, Error};
use sys::ForkMark;
use sys::span::Span;

/// The methods that this library has, for [`Builder::method`]. Addresses on another machine are an
/// extension of `zoid`, for whoever asks for it.
pub(crate) fn with_methods(builder: Builder) -> Builder {
    let options = zoid::Options::from_environment();
    let extended = options.extended_addresses;
    let over_tcp = extended.then(|| zoid::Zoid::over_tcp(options.clone()));
    let zoid = zoid::Zoid::new(options);
    let nodes = zoid.io_nodes();
    let builder = builder.method(bmi::tcp::Tcp::new()).method(zoid);
    let builder = nodes.fold(builder, Builder::method);
    match over_tcp {
        Some(method) => builder.method(method),
        None => builder,
    }
}

/// The interface while it is initialised.
pub(crate) struct Interface {
    pub(crate) bmi: Bmi,
    /// Of the process that initialised it: a child after `fork` must not use its parent's
    /// connections.
    mark: ForkMark,
    /// Strings that were handed out, by address: what it was looked up as, and its printed name.
    names: Mutex<HashMap<Address, Names>>,
}

struct Names {
    name: CString,
    printed: CString,
}

struct Process {
    /// How often it was initialised more than finalized.
    references: usize,
    interface: Option<Arc<Interface>>,
}

static PROCESS: RwLock<Process> = RwLock::new(Process {
    references: 0,
    interface: None,
});

/// Starts the interface, or counts one more user of it.
pub(crate) fn initialize(start: impl FnOnce() -> Result<Bmi, Error>) -> Result<(), Error> {
    let mut process = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    let ours = |interface: &Arc<Interface>| interface.mark.is_own();
    if process.references > 0 && process.interface.as_ref().is_some_and(ours) {
        process.references += 1;
        return Ok(());
    }
    if let Some(parents) = process.interface.take() {
        // Ending it would say goodbye on the parent's connections.
        std::mem::forget(parents);
    }
    let bmi = start()?;
    process.interface = Some(Arc::new(Interface {
        bmi,
        mark: ForkMark::new(),
        names: Mutex::default(),
    }));
    process.references = 1;
    Ok(())
}

/// Ends the interface when this was its last user.
pub(crate) fn finalize() -> Result<(), Error> {
    let mut process = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    // Under the lock: another thread may end this interface, and begin the next one.
    let last = own(&process)?;
    process.references = process.references.checked_sub(1).ok_or(Error::NetDown)?;
    if process.references == 0 {
        process.interface = None;
        drop(process);
        // Other threads may be in it: their calls end.
        last.bmi.finalize();
    }
    Ok(())
}

/// The interface.
///
/// # Errors
///
/// [`Error::NetDown`]: not initialised. [`Error::Inval`]: initialised by a parent process.
pub(crate) fn interface() -> Result<Arc<Interface>, Error> {
    own(&PROCESS.read().unwrap_or_else(PoisonError::into_inner))
}

fn own(process: &Process) -> Result<Arc<Interface>, Error> {
    let interface = process.interface.as_ref().ok_or(Error::NetDown)?;
    if !interface.mark.is_own() {
        return Err(Error::Inval);
    }
    Ok(Arc::clone(interface))
}

impl Interface {
    /// The string that an address was looked up as, for as long as the address lives; null when
    /// there is no such address.
    pub(crate) fn name(&self, address: Address) -> *const c_char {
        self.with_names(address, |names| names.name.as_ptr())
    }

    /// A string to print for an address, for as long as it lives; null when there is no such one.
    pub(crate) fn printed_name(&self, address: Address) -> *const c_char {
        self.with_names(address, |names| names.printed.as_ptr())
    }

    fn with_names(&self, address: Address, of: impl Fn(&Names) -> *const c_char) -> *const c_char {
        let Some((name, printed)) = self.bmi.name(address).zip(self.bmi.peer_name(address)) else {
            self.forget_names(address);
            return std::ptr::null();
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // A zero byte is in no address, because they come from C.
        let text = |text: String| CString::new(text).unwrap_or_default();
        let entry = names.entry(address).or_insert_with(|| Names {
            name: text(name),
            printed: text(printed),
        });
        of(entry)
    }

    /// Drops the strings of an address that is gone.
    pub(crate) fn forget_names(&self, address: Address) {
        if self.bmi.name(address).is_none() {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.remove(&address);
        }
    }
}

/// Memory that a program holds, by the address of its first byte. It outlives the interface:
/// programs free what they have in the order they like.
#[derive(Debug)]
pub(crate) struct Held(Mutex<BTreeMap<usize, Span>>);

/// From `BMI_memalloc`.
pub(crate) static ALLOCATED: Held = Held(Mutex::new(BTreeMap::new()));
/// Of unexpected messages.
pub(crate) static UNEXPECTED: Held = Held(Mutex::new(BTreeMap::new()));

impl Held {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps memory for the program. Returns its first byte.
    pub(crate) fn keep(&self, span: Span) -> *mut u8 {
        let start = span.as_ptr();
        self.lock().insert(start.addr(), span);
        start
    }

    /// Lets go of memory that begins here. Returns whether there was any.
    pub(crate) fn free(&self, start: *mut u8) -> bool {
        let span = self.lock().remove(&start.addr());
        // Dropped here, without the lock: it may return to a pool that tells others.
        span.is_some()
    }

    /// A part of the memory that is held, so that it stays for as long as an operation needs it,
    /// whatever the program frees meanwhile.
    pub(crate) fn part(&self, start: *mut u8, len: usize) -> Option<Span> {
        let held = self.lock();
        let (&first, span) = held.range(..=start.addr()).next_back()?;
        let offset = start.addr() - first;
        span.part(offset..offset.checked_add(len)?)
    }
}
