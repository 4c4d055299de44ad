//! The library under test.

use testkit::c::CLibrary;

/// Returns the library of the dialect with which the tests are built.
pub(crate) fn bmi() -> CLibrary {
    CLibrary::new(env!("CARGO_MANIFEST_DIR"), "bmi", "libbmi_ffi.so")
}
