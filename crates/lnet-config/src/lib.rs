//! The YAML documents that lnetctl reads and writes.
