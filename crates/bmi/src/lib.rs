//! The Buffered Message Interface: reliable, ordered messages between processes, over exchangeable methods.
