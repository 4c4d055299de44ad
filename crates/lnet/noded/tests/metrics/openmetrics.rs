//! A small reader of OpenMetrics 1.0 text that accepts only what the grammar allows.
//!
//! ```text
//!  # HELP name text        once for each family, before
//!  # TYPE name kind        its samples, which stand together
//!  # UNIT name unit        the name ends with it
//!  name{label="value",…} number
//!  # EOF                   last
//! ```

use std::collections::{BTreeMap, BTreeSet};

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// The content of a valid text.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    /// The kind of each family.
    kinds: BTreeMap<String, String>,
    units: BTreeMap<String, String>,
    helped: BTreeSet<String>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        let body = text.strip_suffix("# EOF\n").ok_or("no EOF at the end")?;
        let mut current = String::new();
        for line in body.lines() {
            let done = match line.strip_prefix("# ") {
                Some(comment) => read.comment(comment, &mut current),
                None => read.sample(line, &current),
            };
            done.map_err(|why| format!("{why}: {line}"))?;
        }
        Ok(read)
    }

    fn comment(&mut self, comment: &str, current: &mut String) -> Result<(), &'static str> {
        let mut words = comment.splitn(3, ' ');
        let (Some(word), Some(name), Some(rest)) = (words.next(), words.next(), words.next())
        else {
            return Err("a comment of fewer than three words");
        };
        if !is_name(name) {
            return Err("bad name");
        }
        match word {
            "HELP" if !rest.contains(['"', '\\']) => {
                name.clone_into(current);
                self.helped
                    .insert(name.to_owned())
                    .then_some(())
                    .ok_or("twice")
            }
            "TYPE" if current == name && ["counter", "gauge", "histogram"].contains(&rest) => {
                self.kinds.insert(name.to_owned(), rest.to_owned());
                Ok(())
            }
            "UNIT" if current == name && name.ends_with(&format!("_{rest}")) => {
                self.units.insert(name.to_owned(), rest.to_owned());
                Ok(())
            }
            _ => Err("unknown or misplaced comment"),
        }
    }

    fn sample(&mut self, line: &str, current: &str) -> Result<(), &'static str> {
        let (series, value) = line.rsplit_once(' ').ok_or("no value")?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels_of(labels)?),
            None => (series, Labels::new()),
        };
        let kind = self.kinds.get(current).ok_or("a sample before its type")?;
        if !names_of(current, kind).iter().any(|of| of == name) {
            return Err("a sample of another family");
        }
        if labels.contains_key("le") != (kind == "histogram" && name.ends_with("_bucket")) {
            return Err("a bucket without bound, or a bound without bucket");
        }
        let value: f64 = value.parse().map_err(|_| "bad value")?;
        let first = self.samples.insert((name.to_owned(), labels), value);
        first.is_none().then_some(()).ok_or("a series twice")
    }

    /// Returns the names that queries use.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let kinds = self.kinds.iter();
        kinds
            .flat_map(|(name, kind)| names_of(name, kind))
            .collect()
    }

    /// Returns the value of a series.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        self.samples
            .get(&(name.to_owned(), labels.collect()))
            .copied()
    }

    /// Returns all series of a name.
    pub(crate) fn series(&self, name: &str) -> Vec<(&Labels, f64)> {
        let all = self.samples.iter();
        all.filter(|((of, _), _)| of == name)
            .map(|((_, labels), value)| (labels, *value))
            .collect()
    }

    /// Returns the sum over all series of a name.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.series(name).iter().map(|(_, value)| value).sum()
    }
}

/// Returns the names of the samples of a family.
fn names_of(family: &str, kind: &str) -> Vec<String> {
    let suffixes: &[&str] = match kind {
        "counter" => &["_total"],
        "histogram" => &["_sum", "_count", "_bucket"],
        _ => &[""],
    };
    let names = suffixes.iter();
    names.map(|suffix| format!("{family}{suffix}")).collect()
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// Parses the labels; `text` begins behind the opening brace.
fn labels_of(text: &str) -> Result<Labels, &'static str> {
    let mut rest = text.strip_suffix('}').ok_or("an open brace")?;
    let mut labels = Labels::new();
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").ok_or("a label without value")?;
        let (value, after) = value.split_once('"').ok_or("an open quote")?;
        if !is_name(name) || value.contains('\\') {
            return Err("bad label");
        }
        if labels.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err("a label twice");
        }
        rest = match after.strip_prefix(',') {
            Some("") => return Err("a comma without a label"),
            Some(more) => more,
            None if after.is_empty() => "",
            None => return Err("no comma between labels"),
        };
    }
    Ok(labels)
}

#[test]
fn the_reader_refuses_what_breaks_the_grammar() {
    let good = "# HELP a_bytes x y.\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\n\
                a_bytes_total{n=\"1@tcp\",m=\"\"} 3\n# EOF\n";
    let read = Exposition::parse(good).unwrap();
    let labels = [("n", "1@tcp"), ("m", "")];
    assert_eq!(read.value("a_bytes_total", &labels), Some(3.0));
    for (from, to) in [
        ("# EOF\n", ""),
        ("# TYPE a_bytes counter\n", ""),
        ("a_bytes_total", "a_bytes"),
        ("# UNIT a_bytes bytes", "# UNIT a_bytes seconds"),
        ("\",m", "\"m"),
        (" 3\n", " 3x\n"),
        (" 3\n", " 3\na_bytes_total{m=\"\",n=\"1@tcp\"} 4\n"),
        ("n=", "m="),
        ("} 3", " 3"),
        ("# HELP a_bytes", "# HELP 1_bytes"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert!(Exposition::parse(&bad).is_err(), "{bad}");
    }
}
