//! The state of the process: the interface, the memory that the program holds, printed names.
//!
//! C programs pass pointers and numbers, which may be wrong. Memory that was handed out is therefore
//! registered in tables, and only registered memory is freed or accepted as allocated.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bmi::{Address, Bmi, Builder, Error};
use sys::ForkMark;
use sys::span::Span;

/// Adds the methods of this library to a builder. Addresses on other machines are an extension of `zoid`,
/// which a variable of the environment enables.
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

/// The initialised interface.
pub(crate) struct Interface {
    pub(crate) bmi: Bmi,
    /// The process that initialised it. A child after `fork` must not use its parent's connections.
    mark: ForkMark,
    /// Strings that were handed out, by address: the string of the lookup and the printed name.
    names: Mutex<HashMap<Address, Names>>,
}

struct Names {
    name: CString,
    printed: CString,
}

struct Process {
    /// The number of initialize calls minus finalize calls.
    references: usize,
    interface: Option<Arc<Interface>>,
}

static PROCESS: RwLock<Process> = RwLock::new(Process {
    references: 0,
    interface: None,
});

/// Starts the interface, or adds a reference.
// [CABI-14]
pub(crate) fn initialize(start: impl FnOnce() -> Result<Bmi, Error>) -> Result<(), Error> {
    let mut process = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    let ours = |interface: &Arc<Interface>| interface.mark.is_own();
    if process.references > 0 && process.interface.as_ref().is_some_and(ours) {
        process.references += 1;
        return Ok(());
    }
    if let Some(parents) = process.interface.take() {
        // Dropping it would send goodbyes on the parent's connections.
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

/// Releases a reference; the last one shuts the interface down.
pub(crate) fn finalize() -> Result<(), Error> {
    let mut process = PROCESS.write().unwrap_or_else(PoisonError::into_inner);
    // Under the lock: another thread may finalize this interface and start the next one.
    let last = own(&process)?;
    process.references = process.references.checked_sub(1).ok_or(Error::NetDown)?;
    if process.references == 0 {
        process.interface = None;
        drop(process);
        // Calls of other threads that use the interface end with an error.
        last.bmi.finalize();
    }
    Ok(())
}

/// Returns the interface.
///
/// # Errors
///
/// [`Error::NetDown`]: not initialised. [`Error::Inval`]: initialised by a parent process.
// [CABI-16]
pub(crate) fn interface() -> Result<Arc<Interface>, Error> {
    own(&PROCESS.read().unwrap_or_else(PoisonError::into_inner))
}

// [BMI-54]
fn own(process: &Process) -> Result<Arc<Interface>, Error> {
    let interface = process.interface.as_ref().ok_or(Error::NetDown)?;
    if !interface.mark.is_own() {
        return Err(Error::Inval);
    }
    Ok(Arc::clone(interface))
}

impl Interface {
    /// Returns the string that an address was looked up as, valid as long as the address; null if there is no
    /// such address.
    pub(crate) fn name(&self, address: Address) -> *const c_char {
        self.with_names(address, |names| names.name.as_ptr())
    }

    /// Returns a printable name of an address, valid as long as the address; null if there is no such
    /// address.
    pub(crate) fn printed_name(&self, address: Address) -> *const c_char {
        self.with_names(address, |names| names.printed.as_ptr())
    }

    fn with_names(&self, address: Address, of: impl Fn(&Names) -> *const c_char) -> *const c_char {
        let Some((name, printed)) = self.bmi.name(address).zip(self.bmi.peer_name(address)) else {
            self.forget_names(address);
            return std::ptr::null();
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // Addresses come from C strings, so they contain no zero byte.
        let text = |text: String| CString::new(text).unwrap_or_default();
        let entry = names.entry(address).or_insert_with(|| Names {
            name: text(name),
            printed: text(printed),
        });
        of(entry)
    }

    /// Drops the strings of an address that no longer exists.
    pub(crate) fn forget_names(&self, address: Address) {
        if self.bmi.name(address).is_none() {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.remove(&address);
        }
    }
}

/// Memory that the program holds, by the address of its first byte. It outlives the interface, because
/// programs may free it after `BMI_finalize`.
#[derive(Debug)]
pub(crate) struct Held(Mutex<BTreeMap<usize, Span>>);

/// Memory of `BMI_memalloc`.
pub(crate) static ALLOCATED: Held = Held(Mutex::new(BTreeMap::new()));
/// Memory of unexpected messages.
pub(crate) static UNEXPECTED: Held = Held(Mutex::new(BTreeMap::new()));

impl Held {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Span>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory. Returns the address of its first byte.
    pub(crate) fn keep(&self, span: Span) -> *mut u8 {
        let start = span.as_ptr();
        self.lock().insert(start.addr(), span);
        start
    }

    /// Frees memory that begins at `start`. Returns whether there was any.
    pub(crate) fn free(&self, start: *mut u8) -> bool {
        let span = self.lock().remove(&start.addr());
        // Dropped after the lock: the memory may return to a pool that notifies other threads.
        span.is_some()
    }

    /// Returns a part of registered memory, which stays valid for an operation even if the program frees the
    /// memory.
    // [CABI-21]
    pub(crate) fn part(&self, start: *mut u8, len: usize) -> Option<Span> {
        let held = self.lock();
        let (&first, span) = held.range(..=start.addr()).next_back()?;
        let offset = start.addr() - first;
        span.part(offset..offset.checked_add(len)?)
    }
}
