//! Request and reply with server-driven bulk over LNet Put and Get, executed exactly once.
