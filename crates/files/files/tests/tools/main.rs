//! Operations on trees of files.

mod common;
mod copy;
mod trees;
