//! A picture as SVG, inside the page or in a file of its own.

use std::fmt::{Arguments, Write};

/// Colours and fonts of every picture, for light and dark pages.
pub(super) const STYLE: &str = include_str!("picture.css");

/// A picture.
pub(super) struct Picture {
    /// File name without extension.
    pub(super) name: String,
    /// Title of the picture.
    pub(super) title: String,
    /// Contents of the picture in words.
    pub(super) words: String,
    width: f64,
    height: f64,
    body: String,
}

impl Picture {
    pub(super) fn new(name: &str, title: String, width: f64, height: f64) -> Self {
        Self {
            name: name.to_owned(),
            title,
            words: String::new(),
            width,
            height,
            body: String::new(),
        }
    }

    /// Adds an element.
    pub(super) fn add(&mut self, element: Arguments<'_>) {
        // Writing to a string cannot fail.
        let _infallible = self.body.write_fmt(element);
    }

    /// Adds a text at a position. `class` selects its style.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        let words = escape(words);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{words}</text>"
        ));
    }

    /// Returns the element for the page.
    pub(super) fn inside(&self) -> String {
        self.element("", "")
    }

    /// Returns a complete file with its own styles.
    pub(super) fn alone(&self) -> String {
        let style = format!("<style>{STYLE}</style>");
        self.element(" xmlns=\"http://www.w3.org/2000/svg\"", &style) + "\n"
    }

    fn element(&self, space: &str, style: &str) -> String {
        let (width, height) = (self.width, self.height);
        let (title, words) = (escape(&self.title), escape(&self.words));
        format!(
            "<svg{space} class=\"picture\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             aria-label=\"{title}\">{style}<title>{title}</title><desc>{words}</desc>{}</svg>",
            self.body
        )
    }
}

/// Escapes text for XML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML does not allow control characters.
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
