//! Memory of virtual devices. It knows whether it belongs to a message under way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::device::{Sink, Source};

/// Memory that a program lends to the LND, and that a device may use only meanwhile.
#[derive(Clone, Debug)]
pub struct VirtualMemory {
    bytes: Rc<RefCell<Vec<u8>>>,
    is_lent: Rc<Cell<bool>>,
}

impl VirtualMemory {
    /// Makes memory that is lent from now on.
    #[must_use]
    pub fn lent(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Rc::new(RefCell::new(bytes)),
            is_lent: Rc::new(Cell::new(true)),
        }
    }

    /// Takes the memory back: the message that it belonged to was reported.
    pub fn take_back(&self) {
        self.is_lent.set(false);
    }

    /// Returns true until the memory is taken back.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        self.is_lent.get()
    }

    /// Returns a copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes.borrow().clone()
    }
}

impl Source for VirtualMemory {
    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn copy_out(&self, to: &mut [u8]) {
        let bytes = self.bytes.borrow();
        to.iter_mut()
            .zip(bytes.iter())
            .for_each(|(to, from)| *to = *from);
    }
}

impl Sink for VirtualMemory {
    fn len(&self) -> usize {
        self.bytes.borrow().len()
    }

    fn copy_in(&self, at: usize, from: &[u8]) {
        let mut bytes = self.bytes.borrow_mut();
        let place = bytes.get_mut(at..).unwrap_or_default();
        place
            .iter_mut()
            .zip(from)
            .for_each(|(to, from)| *to = *from);
    }
}
