//! `libfinerail_dlc`.
