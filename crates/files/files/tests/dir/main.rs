//! A directory of this machine as a file system.

mod directory;
mod reftest;
