//! System calls that need unsafe code.
