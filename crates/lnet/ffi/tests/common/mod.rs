//! The library under test.

use testkit::c::CLibrary;

pub(crate) fn lnet() -> CLibrary {
    CLibrary::new(
        env!("CARGO_MANIFEST_DIR"),
        "finerail_lnet",
        "libfinerail_lnet.so",
    )
}
