//! The table of parameters, and the page that shows it.

use std::path::Path;

use crate::{Globals, PARAMETERS, Parameter};

const HEAD: &str = "| Parameter | Module option | Default | Values | |\n|---|---|---|---|---|\n";

fn row(parameter: &Parameter) -> String {
    let Parameter {
        name,
        meaning,
        default,
        values,
        is_opposite,
        ..
    } = parameter;
    let option = match parameter.option {
        Some(option) if *is_opposite => format!("`{option}`, 1 for 0"),
        Some(option) => format!("`{option}`"),
        None => String::new(),
    };
    let values = match (values.start(), values.end()) {
        (0, 1) => "0, 1".to_owned(),
        (min, max) if *max == i32::MAX as u32 => format!("from {min}"),
        (min, max) => format!("{min} to {max}"),
    };
    format!("| `{name}` | {option} | {default} | {values} |{meaning} |\n")
}

#[test]
fn the_published_table_is_that_of_the_code() {
    let rows: String = PARAMETERS.iter().map(row).collect();
    let table = format!("{HEAD}{rows}");
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/selection/configuration.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let from = text.find("| Parameter | Module option").unwrap();
    let to = from + text[from..].find("\n\n").unwrap() + 1;
    if std::env::var_os("FINERAIL_OVERWRITE").is_some() {
        let written = [&text[..from], &table, &text[to..]].concat();
        return std::fs::write(&page, written).unwrap();
    }
    assert_eq!(text[from..to], table, "write it with FINERAIL_OVERWRITE=1");
}

#[test]
fn each_parameter_has_its_own_place_and_takes_its_values() {
    for parameter in PARAMETERS {
        for value in [*parameter.values.start(), *parameter.values.end()] {
            let mut globals = Globals::default();
            parameter.set(&mut globals, value);
            let set: Vec<_> = globals.numbers().collect();
            // `discovery` takes every number, and keeps whether it is 0.
            let kept = if parameter.name == "discovery" {
                value.min(1)
            } else {
                value
            };
            assert_eq!(set, [(parameter.name, kept)]);
        }
        assert!(parameter.values.contains(&parameter.default));
    }
}
