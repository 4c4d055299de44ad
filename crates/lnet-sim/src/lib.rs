//! Many LNet cores on a virtual fabric: seeded faults, virtual time, checked invariants.
