//! Opens pages in headless Chromium and checks that nothing is wider than the window and nothing
//! fails, on wide and narrow screens, light and dark.

use std::path::Path;
use std::process::Command;

const FAILED: &str = "a file or a process that a test needs failed";
const CHROMIUM: &str = "/usr/bin/chromium";

/// Widths of windows: a desktop and a phone.
const WIDTHS: [u32; 2] = [1280, 400];

/// Reports failures in the page itself: errors of scripts and resources, and elements that are
/// wider than the window although they do not scroll.
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

/// Shows the page in a frame of the wanted width, because a window of Chromium is at least 500
/// pixels wide.
const FRAME: &str = r#"<!doctype html><html><head><meta name="color-scheme" content="light dark">
<script>window.onmessage = event => document.documentElement.dataset.probe = event.data;</script></head>
<body style="margin:0"><iframe src="PAGE" style="border:0;width:WIDTHpx;height:1400px"></iframe></body></html>"#;

/// Returns a command for Chromium with a new profile. Without Chromium, reports that and returns
/// `None`.
fn chromium(directory: &Path, name: &str, width: u32, dark: bool) -> Option<Command> {
    if !Path::new(CHROMIUM).exists() {
        crate::absent(format_args!("there is no {CHROMIUM}"));
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

/// Returns the report of the probe on a page, and takes a screenshot of the page. Returns `None`
/// without Chromium.
#[expect(clippy::expect_used, reason = "a test that cannot be set up fails")]
fn probe(directory: &Path, name: &str, page: &str, width: u32, dark: bool) -> Option<String> {
    std::fs::create_dir_all(directory).expect(FAILED);
    let file = directory.join(format!("{name}-{width}-{dark}.html"));
    std::fs::write(&file, page.replace("</head>", &format!("{PROBE}</head>"))).expect(FAILED);
    let frame = file.with_extension("frame.html");
    let framed = FRAME.replace("PAGE", &format!("file://{}", file.display()));
    std::fs::write(&frame, framed.replace("WIDTH", &width.to_string())).expect(FAILED);
    let url = format!("file://{}", frame.display());
    let picture = file.with_extension("png");
    let shot = format!("--screenshot={}", picture.display());
    let mut screenshot = chromium(directory, name, width, dark)?;
    let taken = screenshot.args([&shot, &url]).output().expect(FAILED);
    assert!(
        picture.exists(),
        "{}",
        String::from_utf8_lossy(&taken.stderr)
    );
    let mut dump = chromium(directory, name, width, dark)?;
    let dumped = dump
        .args(["--virtual-time-budget=3000", "--dump-dom", &url])
        .output()
        .expect(FAILED);
    let dom = String::from_utf8_lossy(&dumped.stdout).into_owned();
    let said = dom
        .split("data-probe=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    Some(said.unwrap_or("the probe did not run").to_owned())
}

/// Opens `page` in windows of 1280 and 400 pixels, light and dark, and keeps screenshots in
/// `directory` as `NAME-WIDTH-DARK.png`. Without Chromium, reports that and returns.
///
/// # Panics
///
/// If a script or a resource fails, or something is wider than the window.
pub fn expect_right(directory: &Path, name: &str, page: &str) {
    for width in WIDTHS {
        for dark in [false, true] {
            let Some(said) = probe(directory, name, page, width, dark) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_sees_what_is_too_wide_and_what_fails() {
        let wide = "<html><head></head><body><div style=\"width:3000px\">x</div></body></html>";
        let broken = "<html><head></head><body><script>nothing()</script></body></html>";
        let directory = std::env::temp_dir().join(format!("finerail-probe-{}", std::process::id()));
        for (name, page, sign) in [
            ("wide", wide, "too wide: DIV"),
            ("broken", broken, "nothing"),
        ] {
            if let Some(said) = probe(&directory, name, page, 1280, false) {
                assert!(said.contains(sign), "{said}");
            }
        }
        // Also removes Chromium's profiles.
        drop(std::fs::remove_dir_all(directory));
    }
}
