//! `libbmi`: the BMI interface under the names that C programs know.
//!
//! The headers in `include/` are the documentation of the functions for those who call them. This
//! crate turns pointers and numbers into the values of [`bmi`], and back: it decides nothing.
//!
//! | Argument | Answer |
//! |---|---|
//! | a null pointer where something is to be written | `-BMI_EINVAL` |
//! | a null buffer of more than no bytes | `-BMI_EFAULT` |
//! | an id or address that names nothing, or no longer | the error of the Rust interface |
//! | memory to free that was not handed out, or was freed | `-BMI_EINVAL` |
//! | any call before `BMI_initialize` or after `BMI_finalize` | `-BMI_ENETDOWN` |
//! | any call in a child process, until it initialises | `-BMI_EINVAL` |
//!
//! Memory from `BMI_memalloc` that a posted operation uses stays until the operation is done, also
//! when it is freed meanwhile. What cannot be checked is memory that the program made itself.

pub mod abi;
mod call;
mod info;
mod log;
mod post;
mod state;
mod test;

pub use call::*;
pub use info::{BMI_get_info, BMI_set_info};
pub use post::*;
pub use test::*;
