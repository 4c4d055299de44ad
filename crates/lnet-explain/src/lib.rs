//! Why a message takes its path, and what would change it.
