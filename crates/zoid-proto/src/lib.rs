//! The bytes of the zoid method: between server and plugin, between client and daemon, and in the segment.
