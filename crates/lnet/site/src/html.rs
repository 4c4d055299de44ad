//! Shows the result of a check as a page that needs no other file.

use maud::{DOCTYPE, Markup, html};

use crate::check::{Cause, Check, RoleReport};
use crate::lint::Severity;

/// The style of every page. The pages are readable at a width of 400 pixels.
pub(crate) const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:1rem auto;max-width:60rem;\
padding:0 .6rem;color:#222}table{border-collapse:collapse;width:100%}td,th{padding:.25rem .4rem;text-align:left;\
border-bottom:1px solid #ddd;vertical-align:top;overflow-wrap:anywhere}code{font-size:.92em}.error{color:#a40000}\
.warning{color:#8a5a00}.note{color:#444}details{margin:.4rem 0}svg{max-width:100%;height:auto}";

/// Returns a complete page.
pub(crate) fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body { h1 { (title) } (body) }
        }
    };
    page.into_string()
}

impl Check {
    /// Returns the check as an HTML page without references to other files.
    #[must_use]
    pub fn to_html(&self) -> String {
        let body = html! {
            p { (self.headline()) }
            @for cause in &self.causes { (self::cause(cause)) }
            h2 { "Roles" }
            @for role in &self.roles { (self::role(role)) }
            @if !self.passed_over.is_empty() {
                h2 { "Ignored" }
                ul { @for (path, why) in &self.passed_over { li { code { (path) } ": " (why) } } }
            }
        };
        page("LNet site", &body)
    }
}

fn cause(cause: &Cause) -> Markup {
    let class = match cause.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    html! {
        details open[cause.severity == Severity::Error] {
            summary class=(class) {
                (cause.severity) " " b { (cause.code) } ": " (cause.nodes) " of " (cause.of) " " (cause.role)
            }
            p { (cause.first.reason) ". Fix: " (cause.first.fix) }
            p { code { (cause.first.file) ":" (cause.first.line) } " " (cause.first.key) }
            p { code { (cause.names) } }
        }
    }
}

fn role(role: &RoleReport) -> Markup {
    html! {
        details {
            summary { (role.role) ": " (role.nodes) " nodes, " (role.classes.len()) " classes" }
            table {
                tr { th { "nodes" } th { "names" } th { "differs from the first" } }
                @for class in &role.classes {
                    tr {
                        td { (class.nodes) }
                        td { code { (class.names) } }
                        td {
                            @for setting in &class.has { div { "+ " (setting) } }
                            @for setting in &class.lacks { div { "− " (setting) } }
                        }
                    }
                }
            }
        }
    }
}
