//! The report in a browser: nothing is wider than the window and nothing fails, on wide and narrow
//! screens, light and dark. Without Chromium these tests print a message and pass.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::PathBuf;

use fgr::report::{Study, html, parts};
use fgr::{Machine, Metric, Options, Policy, assign, preset};

use common::{mini, titan_machine};

fn study(machine: &Machine, policy: Policy) -> Study {
    let options = Options::default();
    Study::new(
        machine,
        assign(machine, policy, &options).unwrap(),
        &options,
    )
}

fn page(machine: &Machine, policy: Policy) -> String {
    html(machine, &study(machine, policy), "finerail fgr report")
}

fn expect_right(name: &str, page: &str) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    testkit::browser::expect_right(&directory, name, page);
}

#[test]
fn the_small_machines_report_is_right_in_a_browser() {
    expect_right("mini", &page(&mini(), Policy::STRICT));
}

#[test]
fn titans_report_is_right_in_a_browser_and_smaller_than_three_megabytes() {
    if let Some(machine) = titan_machine() {
        let page = page(&machine, Policy::STRICT);
        assert!(page.len() < 3_000_000, "{}", page.len());
        expect_right("titan", &page);
    }
}

#[test]
fn a_dragonflys_report_is_right_in_a_browser() {
    let machine = preset("frontier").unwrap().unwrap();
    expect_right(
        "frontier",
        &page(&machine, Policy::Nearest { by: Metric::Hops }),
    );
}

#[test]
fn the_page_has_no_script_and_loads_nothing() {
    let page = page(&mini(), Policy::STRICT);
    for sign in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(sign), "{sign}");
    }
}

#[test]
fn every_picture_is_described_in_words() {
    let page = page(&mini(), Policy::STRICT);
    let count = |sign: &str| page.matches(sign).count();
    assert_eq!(count("<svg"), count("<figcaption>"));
    assert_eq!(count("<svg"), count("<desc>"));
    assert!(!page.contains("<desc></desc>"));
}

#[test]
fn each_usable_policy_is_a_point_of_both_fronts_for_pointer_and_keyboard() {
    let machine = mini();
    let study = study(&machine, Policy::STRICT);
    let page = html(&machine, &study, "finerail fgr report");
    let points: Vec<&str> = page.split("<g class=\"point").skip(1).collect();
    for row in study.comparisons() {
        let Ok((evaluation, _)) = &row.result else {
            continue;
        };
        let is_for_use = evaluation.unserved == 0 && evaluation.balance() < 2.0;
        let label = format!("aria-label=\"{}: cost ", row.name);
        let found = points.iter().filter(|point| point.contains(&label));
        assert_eq!(
            found.count(),
            if is_for_use { 2 } else { 0 },
            "{}",
            row.name
        );
    }
    assert!(points.len() > 10 && points.iter().all(|point| point.contains("tabindex=\"0\"")));
    assert_eq!(page.matches("<polyline").count(), 2);
    // The point of the report's plan is above others at the same place.
    for front in page.split("<polyline").skip(1) {
        let own = front
            .split("</svg>")
            .next()
            .unwrap()
            .rsplit("<g class=\"point")
            .next();
        assert!(own.unwrap().starts_with(" this\""), "{own:?}");
    }
}

/// The plan that `nearest` makes here loads a router with more than twice the mean, as no other drawn one does.
#[test]
fn the_plan_of_the_report_is_a_point_of_both_fronts_and_what_is_not_drawn_is_named() {
    let machine = preset("lumi").unwrap().unwrap();
    let study = study(&machine, Policy::Nearest { by: Metric::Cost });
    let page = html(&machine, &study, "finerail fgr report");
    let own = study.comparisons().iter().find(|row| row.is_this).unwrap();
    assert!(own.result.as_ref().unwrap().0.balance() > 2.0);
    assert_eq!(page.matches("<g class=\"point this\"").count(), 2);
    let left_out = page.split("Not drawn").nth(1).unwrap();
    assert!(
        left_out
            .split("</figcaption>")
            .next()
            .unwrap()
            .contains(": nearest by hops")
    );
    // Every drawn point lies between the axes.
    for circle in page.split("<g class=\"point").skip(1) {
        let y = circle
            .split("cy=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert!(
            (12.0..=200.0).contains(&y.parse::<f64>().unwrap()),
            "{circle:.200}"
        );
    }
}

#[test]
fn a_dragonflys_report_has_a_row_of_cool_that_keeps_its_limit_or_says_that_it_does_not() {
    for (name, cool, limit) in [
        ("perlmutter", "cool, up to 5", 5.0),
        ("lumi", "cool, as far as exchanges reach", f64::INFINITY),
    ] {
        let machine = preset(name).unwrap().unwrap();
        let study = study(&machine, Policy::Balanced { by: Metric::Cost });
        let heat = |name: &str| {
            let mut rows = study.comparisons().iter();
            let row = rows.find(|row| row.name == name).unwrap();
            let figures = &row.result.as_ref().unwrap().0;
            figures.write.max.max(figures.read.max)
        };
        let (is, balanced) = (heat(cool), heat("balanced by cost"));
        assert!(is <= limit && is <= balanced, "{name}: {is}, {balanced}");
    }
}

#[test]
fn a_list_of_places_that_is_cut_says_so() {
    let machine = preset("frontier").unwrap().unwrap();
    let study = study(&machine, Policy::Flat);
    let page = html(&machine, &study, "finerail fgr report");
    let words = page.split("Group G1: 16 modules in group ").nth(1).unwrap();
    let words = words.split('.').next().unwrap();
    assert_eq!(words.split(", ").count(), 12, "{words}");
    assert!(words.ends_with(" and 4 more"), "{words}");
}

#[test]
fn hot_links_of_a_torus_have_names_at_both_ends() {
    if let Some(machine) = titan_machine() {
        let page = page(&machine, Policy::STRICT);
        let links = page
            .split("id=\"links\"")
            .nth(1)
            .unwrap()
            .split("</table>")
            .next()
            .unwrap();
        for row in links.split("<tr>").skip(2) {
            let ends = ["+</td><td class=\"name\">c", "-</td><td class=\"name\">c"];
            assert!(ends.iter().any(|end| row.contains(end)), "{row}");
            assert!(row.matches("(").count() == 2, "{row}");
        }
        assert!(links.contains("Z+</td><td class=\"name\">c"), "{links}");
    }
}

#[test]
fn the_machine_is_drawn_in_three_projections_with_its_hottest_links() {
    let page = page(&mini(), Policy::STRICT);
    let titles = ["x across, y down", "x across, z down", "z across, y down"];
    for title in titles {
        let figure = page
            .split("<figure")
            .find(|figure| figure.to_lowercase().contains(title));
        let figure = figure.unwrap_or_else(|| panic!("{title}"));
        for class in ["hot write", "hot read"] {
            assert!(
                figure.contains(&format!("class=\"{class}\"")),
                "{title}: {class}"
            );
        }
    }
}

#[test]
fn each_module_leads_to_its_clients_before_and_after_it_died() {
    let machine = mini();
    let page = page(&machine, Policy::STRICT);
    for (index, module) in machine.modules.iter().enumerate() {
        assert!(page.contains(&format!("href=\"#m-{index}\"")), "{index}");
        let id = format!("id=\"m-{index}\"");
        let panel = page
            .split("<figure")
            .find(|figure| figure.contains(&id))
            .unwrap();
        for text in [
            module.blade.as_str(),
            ">before<",
            ">after it died<",
            "0 are left without",
        ] {
            assert!(panel.contains(text), "{index}: {text}");
        }
    }
}

#[test]
fn shares_of_the_successors_add_up() {
    let page = page(&mini(), Policy::STRICT);
    let rows = page
        .split("id=\"failures\"")
        .nth(1)
        .unwrap()
        .split("<tr>")
        .skip(2);
    let mut seen = 0;
    for row in rows.take_while(|row| row.contains(" %<")) {
        let numbers = row
            .split(" %")
            .filter_map(|before| before.rsplit(' ').next()?.parse::<u32>().ok());
        let sum: u32 = numbers.sum();
        assert!((99..=101).contains(&sum), "{sum}: {row}");
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn equal_plans_give_equal_reports() {
    let machine = mini();
    assert_eq!(
        page(&machine, Policy::STRICT),
        page(&machine, Policy::STRICT)
    );
}

#[test]
fn text_of_the_description_is_escaped() {
    let mut machine = mini();
    machine.name = "<b>&\"x".to_owned();
    let page = page(&machine, Policy::STRICT);
    assert!(!page.contains("<b>&\"x"));
    let study = study(&machine, Policy::STRICT);
    let drawn = parts(&machine, &study);
    assert!(drawn.iter().all(|part| !part.content.contains("<b>&\"x")));
}

#[test]
fn every_part_is_an_svg_or_a_csv_with_equal_columns() {
    let machine = mini();
    let parts = parts(&machine, &study(&machine, Policy::STRICT));
    assert!(parts.len() >= 15, "{}", parts.len());
    for part in parts {
        if part.name.ends_with(".svg") {
            assert!(part.content.starts_with("<svg xmlns="), "{}", part.name);
            continue;
        }
        let columns = |line: &str| line.matches(',').count();
        let mut lines = part.content.lines();
        let header = lines.next().map(columns);
        for line in lines.filter(|line| !line.contains('"')) {
            assert_eq!(Some(columns(line)), header, "{}: {line}", part.name);
        }
    }
}
