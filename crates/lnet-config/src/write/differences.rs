//! Where our output deliberately differs from that of kernel nodes.

/// A deliberate difference between what kernel nodes of 2.16.1 print or take and what Finerail does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// A short stable name.
    pub code: &'static str,
    /// The command or section.
    pub subject: &'static str,
    /// What kernel nodes print or do.
    pub kernel: &'static str,
    /// What Finerail prints or does.
    pub finerail: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// All deliberate differences in documents: the documentation prints this table.
pub const DIFFERENCES: &[Difference] = &[Difference {
    code: "descr-quoted",
    subject: "import of a file that cannot be opened",
    kernel: "descr: cannot open 'F': No such file or directory",
    finerail: "descr: \"cannot open 'F': No such file or directory\"",
    reason: "a colon and a blank inside text without quotes is not YAML, and no parser reads it",
}];
