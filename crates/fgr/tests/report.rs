//! The report in a browser: nothing is wider than the window, nothing goes wrong, on wide and narrow
//! screens, light and dark. Without Chromium these tests say so and pass.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use fgr::report::{Study, html, parts};
use fgr::{Machine, Metric, Options, Policy, assign, preset};

use common::{mini, titan_machine};

const CHROMIUM: &str = "/usr/bin/chromium";

/// Window widths: a desktop's and a telephone's.
const WIDTHS: [u32; 2] = [1280, 400];

/// Says in the page itself what went wrong: errors of scripts and resources, and what sticks out of
/// the window although it does not scroll.
const PROBE: &str = r#"<script>
const errors = [];
window.addEventListener('error', event => errors.push(event.message || 'a resource failed'), true);
window.addEventListener('load', () => {
  const width = document.documentElement.clientWidth;
  const scrolls = e => e && (getComputedStyle(e).overflowX === 'auto' || scrolls(e.parentElement));
  for (const e of document.querySelectorAll('body *')) {
    if (e.getBoundingClientRect().right > width + 1 && !scrolls(e) && !e.closest('svg'))
      errors.push('too wide: ' + e.tagName + ' ' + e.className);
  }
  if (document.documentElement.scrollWidth > width) errors.push('the page scrolls sideways');
  parent.postMessage('width=' + window.innerWidth + ' dark=' + matchMedia('(prefers-color-scheme: dark)').matches +
    ' errors=' + errors.length + ' ' + errors.slice(0, 5).join('; '), '*');
});
</script>"#;

/// The page in a frame of the wanted width, because a window of Chromium is never narrower than 500.
const FRAME: &str = r#"<!doctype html><html><head><meta name="color-scheme" content="light dark">
<script>window.onmessage = event => document.documentElement.dataset.probe = event.data;</script></head>
<body style="margin:0"><iframe src="PAGE" style="border:0;width:WIDTHpx;height:1400px"></iframe></body></html>"#;

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

/// Chromium with a profile of its own, or `None` with a message.
fn chromium(directory: &Path, name: &str, width: u32, dark: bool) -> Option<Command> {
    if !Path::new(CHROMIUM).exists() {
        testkit::absent(format_args!("there is no {CHROMIUM}"));
        return None;
    }
    let profile = directory.join(format!("profile-{name}-{width}-{dark}"));
    let mut command = Command::new(CHROMIUM);
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
        ])
        .args(["--no-first-run", "--disable-background-networking"])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},1400"))
        .arg(format!(
            "--blink-settings=preferredColorScheme={}",
            u8::from(!dark)
        ));
    Some(command)
}

/// What the probe says of a page, after a screenshot of it; `None` without Chromium.
fn probe(name: &str, page: &str, width: u32, dark: bool) -> Option<String> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join(format!("{name}-{width}-{dark}.html"));
    std::fs::write(&file, page.replace("</head>", &format!("{PROBE}</head>"))).unwrap();
    let frame = file.with_extension("frame.html");
    let framed = FRAME.replace("PAGE", &format!("file://{}", file.display()));
    std::fs::write(&frame, framed.replace("WIDTH", &width.to_string())).unwrap();
    let url = format!("file://{}", frame.display());
    let picture = file.with_extension("png");
    let shot = format!("--screenshot={}", picture.display());
    let mut screenshot = chromium(&directory, name, width, dark)?;
    let taken = screenshot.args([&shot, &url]).output().unwrap();
    assert!(
        picture.exists(),
        "{}",
        String::from_utf8_lossy(&taken.stderr)
    );
    let mut dump = chromium(&directory, name, width, dark)?;
    let dumped = dump
        .args(["--virtual-time-budget=3000", "--dump-dom", &url])
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&dumped.stdout).into_owned();
    let said = dom
        .split("data-probe=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    Some(said.unwrap_or("the probe did not run").to_owned())
}

fn expect_right(name: &str, page: &str) {
    for width in WIDTHS {
        for dark in [false, true] {
            let Some(said) = probe(name, page, width, dark) else {
                return;
            };
            assert_eq!(
                said.trim(),
                format!("width={width} dark={dark} errors=0"),
                "{name}"
            );
        }
    }
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
fn the_probe_sees_what_is_too_wide_and_what_fails() {
    let wide = "<html><head></head><body><div style=\"width:3000px\">x</div></body></html>";
    let broken = "<html><head></head><body><script>nothing()</script></body></html>";
    for (name, page, sign) in [
        ("wide", wide, "too wide: DIV"),
        ("broken", broken, "nothing"),
    ] {
        if let Some(said) = probe(name, page, 1280, false) {
            assert!(said.contains(sign), "{said}");
        }
    }
}

#[test]
fn the_page_has_no_script_and_loads_nothing() {
    let page = page(&mini(), Policy::STRICT);
    for sign in ["<script", "http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(sign), "{sign}");
    }
}

#[test]
fn every_picture_has_words_for_those_who_cannot_see_it() {
    let page = page(&mini(), Policy::STRICT);
    let count = |sign: &str| page.matches(sign).count();
    assert_eq!(count("<svg"), count("<figcaption>"));
    assert_eq!(count("<svg"), count("<desc>"));
    assert!(!page.contains("<desc></desc>"));
}

#[test]
fn each_policy_that_is_for_use_is_a_point_of_both_fronts_for_hand_and_keyboard() {
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
    // That of the page lies over others at the same place.
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
fn shares_of_those_who_take_over_add_up() {
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
