//! The I/O-node daemon around the zbmi engine.
