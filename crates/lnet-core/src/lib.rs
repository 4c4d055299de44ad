//! An LNet node as a state machine without I/O: interfaces, peers, routes, portals, messages, forwarding.
