//! The user value of a descriptor, which says what an event of the descriptor belongs to.

/// The purpose of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A buffer for requests to this node; the number is the number of the service.
    Buffer,
    /// The reply to an RPC of this node.
    Reply,
    /// The bulk of an RPC of this node.
    Bulk,
    /// The request of an RPC of this node.
    Request,
    /// The bulk of an RPC for this node.
    ServedBulk,
    /// The reply to an RPC for this node.
    ServedReply,
    /// None: an event of this descriptor only wakes the thread.
    Bell,
}

/// The purpose of a descriptor, and the number of its RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) part: Part,
    pub(super) number: u64,
}

const PARTS: [Part; 7] = [
    Part::Buffer,
    Part::Reply,
    Part::Bulk,
    Part::Request,
    Part::ServedBulk,
    Part::ServedReply,
    Part::Bell,
];

impl Tag {
    pub(super) const fn value(self) -> u64 {
        self.number << 3 | self.part as u64
    }

    pub(super) fn of(value: u64) -> Option<Self> {
        let part = *PARTS.get((value & 7) as usize)?;
        let number = value >> 3;
        Some(Self { part, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_back() {
        for part in PARTS {
            let tag = Tag { part, number: 77 };
            assert_eq!(Tag::of(tag.value()), Some(tag));
        }
        assert_eq!(Tag::of(7), None);
    }
}
