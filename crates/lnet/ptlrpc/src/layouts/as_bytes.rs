//! What is shown as bytes, and why.

/// Something of which the bytes are shown, and nothing that they mean.
#[derive(Clone, Copy, Debug)]
pub struct AsBytes {
    /// The structure; `buffer` for a buffer of its own.
    pub part: &'static str,
    /// The field or the buffer.
    pub name: &'static str,
    /// The reason why the bytes are not decoded.
    pub reason: &'static str,
}

const fn b(name: &'static str, reason: &'static str) -> AsBytes {
    f("buffer", name, reason)
}

const fn f(part: &'static str, name: &'static str, reason: &'static str) -> AsBytes {
    AsBytes { part, name, reason }
}

const NO_FIELDS: &str = "its fields are not specified";
const DATA: &str = "data of a user";
const VALUE: &str = "its meaning depends on a name beside";
const ENCRYPTION: &str = "a context of encryption, opaque to all but its client";

/// Everything that is shown as bytes: the structures in the order of their names, buffers first.
pub static SHOWN_AS_BYTES: &[AsBytes] = &[
    b("acl", NO_FIELDS),
    b("close_data", NO_FIELDS),
    b("cookies", "not used by any release that is known"),
    b("default_lmv", NO_FIELDS),
    b("ea", NO_FIELDS),
    b("encryption", ENCRYPTION),
    b("extra", "a place that has no bytes by habit"),
    b("fids", "identifiers one behind the other"),
    b("flags", NO_FIELDS),
    b("hsm", NO_FIELDS),
    b("inline_data", DATA),
    b("iterator", NO_FIELDS),
    b("lengths", "the lengths of the values beside"),
    b("lfsck", NO_FIELDS),
    b("log_block", "its records are shown below"),
    b("lov_ea", NO_FIELDS),
    b("lvb", "its layout depends on the lock"),
    b("names", "names one behind the other, each with its NUL"),
    b("nids", NO_FIELDS),
    b("numbers", NO_FIELDS),
    b("ranges", "a count, and ranges one behind the other"),
    b("results", "one number for each extent"),
    b("secctx", VALUE),
    b("target_info", NO_FIELDS),
    b("update_buffers", NO_FIELDS),
    b("updates", NO_FIELDS),
    b("value", VALUE),
    b("values", VALUE),
    f("gl_desc", "gl_desc", NO_FIELDS),
    f("idx_info", "idx_info", NO_FIELDS),
    f("ladvise", "ladvise", NO_FIELDS),
    f("ladvise_header", "ladvise_header", NO_FIELDS),
    f(
        "llogd_body",
        "logid",
        "a handle, opaque to all but its server",
    ),
    f("log_header", "bitmap", "the records in use are shown below"),
    f("ost_body", "layout", NO_FIELDS),
    f("quota_body", "quota_body", NO_FIELDS),
    f("quotactl", "quotactl", NO_FIELDS),
    f("statfs", "fsid", "an identifier without parts"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::layouts::{Format, evidence};
    use crate::schema::{Part, all_parts};

    #[test]
    fn what_is_shown_as_bytes_is_in_the_table_with_its_reason() {
        let blobs = all_parts().filter_map(|part| match part {
            Part::Blob(name) => Some(("buffer", name)),
            _ => None,
        });
        let fields = evidence::LAYOUTS.iter().flat_map(|layout| {
            let specs = layout.specs.iter();
            let specs = specs.filter(|spec| matches!(spec.format, Format::Bytes));
            specs.map(|spec| (layout.name, spec.name))
        });
        let shown: BTreeSet<_> = blobs.chain(fields).collect();
        let allowed = SHOWN_AS_BYTES.iter();
        let allowed: Vec<_> = allowed.map(|row| (row.part, row.name)).collect();
        assert_eq!(allowed, shown.into_iter().collect::<Vec<_>>());
        assert!(SHOWN_AS_BYTES.iter().all(|row| !row.reason.is_empty()));
    }
}
