//! A running LNet node: drives the core with real time and real LNDs.
