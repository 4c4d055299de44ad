//! The symbols that the shared library exports.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::bmi;

// [CABI-1] [CABI-4]
#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let exported = bmi().exported();
    assert_eq!(exported, declared());
    assert_eq!(
        exported.len(),
        if cfg!(feature = "orangefs") { 26 } else { 29 }
    );
}

/// Returns the functions of the dialect.
fn declared() -> BTreeSet<String> {
    const BOTH: &str = "BMI_initialize BMI_finalize BMI_open_context BMI_close_context \
        BMI_post_send BMI_post_send_list BMI_post_sendunexpected BMI_post_sendunexpected_list \
        BMI_post_recv BMI_post_recv_list BMI_test BMI_testsome BMI_testcontext \
        BMI_testunexpected BMI_unexpected_free BMI_memalloc BMI_memfree BMI_set_info \
        BMI_get_info BMI_addr_lookup BMI_addr_rev_lookup BMI_addr_rev_lookup_unexpected \
        BMI_query_addr_range BMI_cancel bmi_errno_to_pvfs bmi_status_string";
    const OWN: &str = if cfg!(feature = "orangefs") {
        ""
    } else {
        "BMI_post_sendunexpected_class BMI_post_sendunexpected_list_class BMI_testunexpected_class"
    };
    BOTH.split_whitespace()
        .chain(OWN.split_whitespace())
        .map(str::to_owned)
        .collect()
}

// [CABI-2]
#[test]
fn the_shared_library_has_the_name_that_programs_load() {
    assert_eq!(bmi().soname(), "libbmi.so");
}

#[test]
fn the_pkg_config_file_is_a_template() {
    let template =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("bmi.pc.in")).unwrap();
    for field in [
        "prefix=@prefix@",
        "Version: @version@",
        "Libs: -L${libdir} -lbmi",
    ] {
        assert!(template.contains(field), "{field}");
    }
}
