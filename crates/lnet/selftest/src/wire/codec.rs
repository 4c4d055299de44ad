//! The fields of a message in the sender's byte order. The fields follow each other without gaps.
//!
//! A structure lists its fields once, for both [`Reader`] and [`Writer`], so that the two cannot differ.

/// The byte order of a message. Finerail sends [`Order::Little`], as kernel nodes on the usual machines do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// Returns the bytes of this word as a node of this byte order has them in memory.
    #[must_use]
    pub const fn bytes(self, word: u64) -> [u8; 8] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }
}

/// A direction of the codec: reads fields out of a message, or writes fields into one.
pub(super) trait Codec {
    fn bytes<const N: usize>(&mut self, field: &mut [u8; N]);
    fn order(&self) -> Order;

    fn u8(&mut self, field: &mut u8) {
        let mut bytes = [*field];
        self.bytes(&mut bytes);
        [*field] = bytes;
    }

    fn u16(&mut self, field: &mut u16) {
        let mut bytes = match self.order() {
            Order::Little => field.to_le_bytes(),
            Order::Big => field.to_be_bytes(),
        };
        self.bytes(&mut bytes);
        *field = match self.order() {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        };
    }

    fn u32(&mut self, field: &mut u32) {
        let mut bytes = match self.order() {
            Order::Little => field.to_le_bytes(),
            Order::Big => field.to_be_bytes(),
        };
        self.bytes(&mut bytes);
        *field = match self.order() {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        };
    }

    fn u64(&mut self, field: &mut u64) {
        let mut bytes = self.order().bytes(*field);
        self.bytes(&mut bytes);
        *field = match self.order() {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        };
    }

    fn i32(&mut self, field: &mut i32) {
        let mut word = field.cast_unsigned();
        self.u32(&mut word);
        *field = word.cast_signed();
    }

    fn i64(&mut self, field: &mut i64) {
        let mut word = field.cast_unsigned();
        self.u64(&mut word);
        *field = word.cast_signed();
    }
}

/// Reads fields. A field behind the end of the bytes keeps its value.
pub(super) struct Reader<'a> {
    pub(super) left: &'a [u8],
    pub(super) order: Order,
}

impl Codec for Reader<'_> {
    fn bytes<const N: usize>(&mut self, field: &mut [u8; N]) {
        if let Some((head, left)) = self.left.split_first_chunk::<N>() {
            *field = *head;
            self.left = left;
        }
    }

    fn order(&self) -> Order {
        self.order
    }
}

/// Writes fields. A field that does not fit is not written.
pub(super) struct Writer<'a> {
    pub(super) left: &'a mut [u8],
    pub(super) order: Order,
}

impl Codec for Writer<'_> {
    fn bytes<const N: usize>(&mut self, field: &mut [u8; N]) {
        let room = std::mem::take(&mut self.left);
        if let Some((head, left)) = room.split_first_chunk_mut::<N>() {
            *head = *field;
            self.left = left;
        }
    }

    fn order(&self) -> Order {
        self.order
    }
}
