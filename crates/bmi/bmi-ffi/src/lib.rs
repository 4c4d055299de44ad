//! `libbmi`: the BMI interface for C programs.
//!
//! The headers in `include/` document the functions for their callers. This crate converts pointers and
//! numbers to the values of [`bmi`] and back; it contains no other logic.
//!
//! | Invalid call | Result |
//! |---|---|
//! | a null pointer to a required result | `-BMI_EINVAL` |
//! | a null buffer with a size above 0 | `-BMI_EFAULT` |
//! | an id or address that is unknown or stale | the error of the Rust interface |
//! | a free of memory that was not handed out, or was freed before | `-BMI_EINVAL` |
//! | any call before `BMI_initialize` or after `BMI_finalize` | `-BMI_ENETDOWN` |
//! | any call in a child process before it initialises | `-BMI_EINVAL` |
//!
//! Memory of `BMI_memalloc` that a pending operation uses stays valid until the operation completes, even if
//! the program frees it earlier.
//!
//! # Limits
//!
//! Memory that the program allocated itself cannot be checked: a wrong pointer or size is undefined
//! behaviour, as with `read(2)`. The static and the shared library contain one interface per process.
//!
//! # Example
//!
//! The C programs in `examples/` are complete conversations. The same calls from Rust:
//!
//! ```
//! use bmi_ffi::{BMI_finalize, BMI_initialize, BMI_open_context};
//!
//! let mut context = 0;
//! // SAFETY: the strings are zero-terminated, and `context` is valid for writes.
//! unsafe {
//!     assert_eq!(BMI_initialize(c"bmi_tcp".as_ptr(), c"tcp://127.0.0.1:0".as_ptr(), 1), 0);
//!     assert_eq!(BMI_open_context(&raw mut context), 0);
//! }
//! assert_eq!(BMI_finalize(), 0);
//! ```

// [CABI-3]
pub mod abi;
mod call;
mod info;
mod log;
mod post;
mod state;
mod test;

// [CABI-1]
pub use call::*;
pub use info::{BMI_get_info, BMI_set_info};
pub use post::*;
pub use test::*;
