//! Writes names of nodes in a short form: `node[0001-0017,0021]`, like Slurm and pdsh.

use std::collections::BTreeMap;

/// The numbers in names with the same beginning, the same number of digits and the same end. A number occurs once
/// for each name with it.
type Runs<'n> = BTreeMap<(&'n str, usize, &'n str), Vec<u64>>;

/// Returns the names as a host list. Names share brackets if they differ only in their last number and write it
/// with the same number of digits.
///
/// ```
/// let names = ["oss2", "node08", "node10", "oss1", "node09", "login"];
/// assert_eq!(lnet_site::fold(names), "login,node[08-10],oss[1-2]");
/// ```
#[must_use]
pub fn fold<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut runs = Runs::new();
    let mut whole: Vec<String> = Vec::new();
    for name in names {
        match parts(name) {
            Some((before, width, number, after)) => {
                runs.entry((before, width, after)).or_default().push(number);
            }
            None => whole.push(name.to_owned()),
        }
    }
    for ((before, width, after), mut numbers) in runs {
        numbers.sort_unstable();
        numbers.dedup();
        whole.push(match numbers[..] {
            [one] => format!("{before}{one:0width$}{after}"),
            _ => format!("{before}[{}]{after}", ranges(&numbers, width)),
        });
    }
    whole.sort_unstable();
    whole.dedup();
    whole.join(",")
}

/// Splits a name into the text before its last number, the number of digits, the number, and the text after it.
fn parts(name: &str) -> Option<(&str, usize, u64, &str)> {
    if name.contains(['[', ',']) {
        return None;
    }
    // Only a number in the first label of a full host name counts.
    let label = name.find('.').unwrap_or(name.len());
    let (host, _) = name.split_at(label);
    let end = host.rfind(|one: char| one.is_ascii_digit())? + 1;
    let digits = host.get(..end)?;
    let start = digits.rfind(|one: char| !one.is_ascii_digit());
    let start = start.map_or(0, |at| {
        at + digits[at..].chars().next().map_or(1, char::len_utf8)
    });
    let digits = digits.get(start..)?;
    Some((
        name.get(..start)?,
        digits.len(),
        digits.parse().ok()?,
        name.get(end..)?,
    ))
}

fn ranges(numbers: &[u64], width: usize) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = numbers;
    while let [first, ..] = *rest {
        let run = (first..).zip(rest).take_while(|(want, have)| want == *have);
        let length = run.count().max(1);
        let last = rest.get(length - 1).copied().unwrap_or(first);
        words.push(match length {
            1 => format!("{first:0width$}"),
            _ => format!("{first:0width$}-{last:0width$}"),
        });
        rest = rest.get(length..).unwrap_or_default();
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fold;

    #[test]
    fn names_with_other_digits_or_ends_stand_apart() {
        let names = [
            "n9", "n10", "n09", "n1-ib", "n2-ib", "r1.x.org", "r2.x.org", "é1", "é2",
        ];
        assert_eq!(fold(names), "n9,n[09-10],n[1-2]-ib,r[1-2].x.org,é[1-2]");
    }

    #[test]
    fn host_lists_stay_as_they_are() {
        assert_eq!(fold(["a[1-3]", "b1"]), "a[1-3],b1");
    }

    proptest! {
        #[test]
        fn a_folded_list_is_read_as_the_same_names(
            names in proptest::collection::btree_set("[a-c]{1,2}[0-9]{1,3}[x-z]{0,1}", 1..20)
        ) {
            let text = fold(names.iter().map(String::as_str));
            let mut read = fgr::hosts(&text).unwrap();
            read.sort();
            prop_assert_eq!(read, names.into_iter().collect::<Vec<_>>());
        }
    }
}
