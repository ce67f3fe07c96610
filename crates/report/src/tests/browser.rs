//! The page in a real browser, where one is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Run;
use crate::tests::illustrated;
use crate::tests::ladder::ladder;

/// Prints, unfolds the page, points at the first marker of every figure, zooms into its lower left
/// quarter, and leaves the results in the document.
const VISITOR: &str = r"
<script>
const parts = [...document.querySelectorAll('details')];
const open = () => parts.filter((part) => part.open).length;
const before = open();
dispatchEvent(new Event('beforeprint'));
const printed = open();
dispatchEvent(new Event('afterprint'));
document.body.dataset.folded = [before, printed, open()].join(' ');
for (const part of parts) part.open = true;
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('svg.chart');
  if (!svg) continue;
  const box = (element) => element.getBoundingClientRect();
  const at = (type, x, y) => svg.dispatchEvent(new PointerEvent(type, {
    clientX: x, clientY: y, pointerId: 1, pointerType: 'mouse', button: 0, bubbles: true,
  }));
  const mark = svg.querySelector('.data .mark');
  if (mark) {
    const over = box(mark);
    at('pointermove', over.x + over.width / 2, over.y + over.height / 2);
    figure.dataset.saw = figure.querySelector('.tip').textContent;
  }
  const plot = box(svg.querySelector('.data'));
  svg.setPointerCapture = () => {};
  at('pointerdown', plot.x + 4, plot.bottom - 8);
  at('pointermove', plot.x + plot.width / 2, plot.y + plot.height / 2);
  at('pointerup', plot.x + plot.width / 2, plot.y + plot.height / 2);
  const labels = [...svg.querySelectorAll('.zoom-axes text')].map((text) => text.textContent);
  figure.dataset.zoomed = labels.length + ' labels: ' + labels.join(', ');
  figure.querySelector('button').click();
  figure.dataset.after = svg.querySelector('.zoom-axes') ? 'still zoomed' : 'whole again';
}
</script>
";

/// Writes a page with a script at its end.
pub(crate) fn with_script(html: &str, script: &str, folder: &Path) -> PathBuf {
    let page = folder.join("visited.html");
    fs::write(&page, html.replace("</body>", &format!("{script}</body>"))).unwrap();
    page
}

#[test]
fn the_script_shows_values_and_zooms() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not installed");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let html = crate::page_of(&ladder(5).run()).unwrap();
    let visited = with_script(&html, VISITOR, place.path());

    let (document, log) = open(browser, &visited, place.path());
    assert!(!log.contains("CONSOLE"), "{log}");
    assert_eq!(document.matches("data-ready=").count(), 3, "{log}");
    assert!(document.contains("data-folded=\"1 7 1\""), "{document}");
    assert_eq!(
        document.matches("data-saw=\"curtail: ").count(),
        3,
        "{document}"
    );
    assert_eq!(document.matches("data-after=\"whole again\"").count(), 3);
    let zoomed: Vec<usize> = document
        .match_indices("data-zoomed=\"")
        .map(|(at, name)| {
            let labels = &document[at + name.len()..];
            labels.split(' ').next().unwrap().parse().unwrap()
        })
        .collect();
    assert!(
        zoomed.len() == 3 && zoomed.iter().all(|&labels| labels >= 4),
        "{zoomed:?}"
    );
}

/// Unfolds the page in the frame, and leaves its width in the document.
const MEASURER: &str = r"
<script>
const frame = document.querySelector('iframe');
frame.onload = () => {
  const page = frame.contentDocument;
  for (const part of page.querySelectorAll('details')) part.open = true;
  document.body.dataset.width = page.documentElement.scrollWidth;
};
</script>
";

#[test]
fn a_telephone_need_not_scroll_the_page_sideways() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not installed");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let mut run = ladder(5);
    run.plan.rerun = Some(format!("curtail lab run {}", "x".repeat(200)));
    let inner = run.page().replace('&', "&amp;").replace('"', "&quot;");
    let frame =
        format!("<iframe style=\"width: 390px; height: 900px; border: 0\" srcdoc=\"{inner}\">");
    let page = place.path().join("frame.html");
    fs::write(
        &page,
        format!("<!DOCTYPE html><body>{frame}</iframe>{MEASURER}"),
    )
    .unwrap();
    let (document, _) = open(browser, &page, place.path());
    let (_, width) = document.split_once("data-width=\"").unwrap();
    let width: u32 = width.split_once('"').unwrap().0.parse().unwrap();
    assert!(width <= 390, "{width}");
}

#[test]
fn the_script_serves_every_kind_of_figure() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not installed");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let folder = illustrated::written(&illustrated::run(), place.path());
    let html = crate::page_of(&Run::open(&folder).unwrap()).unwrap();
    let visited = with_script(&html, VISITOR, place.path());
    let (document, log) = open(browser, &visited, place.path());
    assert!(!log.contains("CONSOLE"), "{log}");
    // All but the table have the script; curve, cdf, scatter and Pareto front can be zoomed.
    let figures = document.matches("data-ready=").count();
    assert_eq!(
        document.matches("data-after=\"whole again\"").count(),
        figures
    );
    let still = document.matches("data-zoomed=\"0 labels").count();
    assert_eq!(figures - still, 4, "{document}");
    for seen in ["a: p50 ", "a, with 1 threads: ", "wall time "] {
        assert!(document.contains(seen), "{seen}: {document}");
    }
}

/// Unfolds the page, and leaves its colours, its overflow and the number of hidden tables in the
/// document.
const READER: &str = r"
<script>
for (const part of document.querySelectorAll('details')) part.open = true;
const style = getComputedStyle(document.body);
document.body.dataset.colours = style.color + ' on ' + style.backgroundColor;
const root = document.documentElement;
document.body.dataset.overflow = String(root.scrollWidth - root.clientWidth);
const hidden = [...document.querySelectorAll('table')].filter((table) => !table.offsetHeight);
document.body.dataset.hidden = String(hidden.length);
</script>
";

#[test]
fn a_run_of_any_kind_is_read_in_light_and_in_dark() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not installed");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let folder = illustrated::written(&illustrated::run(), place.path());
    let html = crate::page_of(&Run::open(&folder).unwrap()).unwrap();
    let visited = with_script(&html, READER, place.path());
    let schemes = [
        (1, "rgb(27, 29, 33) on rgb(255, 255, 255)"),
        (0, "rgb(232, 233, 236) on rgb(22, 24, 28)"),
    ];
    for (scheme, colours) in schemes {
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let (document, log) = run(browser, &["--dump-dom", &scheme], &visited, place.path());
        assert!(!log.contains("CONSOLE"), "{log}");
        let colours = format!("data-colours=\"{colours}\"");
        assert!(document.contains(&colours), "{colours}");
        assert!(
            document.contains("data-overflow=\"0\""),
            "the page itself never scrolls"
        );
        assert!(document.contains("data-hidden=\"0\""));
        assert_eq!(
            document
                .matches("<details class=\"part\" open=\"\">")
                .count(),
            6
        );
    }
}

#[test]
fn paper_shows_what_the_screen_folds() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not installed");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let html = crate::page_of(&ladder(5).run()).unwrap();
    // The style sheet alone has to do it, where scripts are off.
    let silent = html.replace("addEventListener('beforeprint'", "void ('beforeprint'");
    assert_ne!(silent, html);
    for (name, text) in [("page", &html), ("silent", &silent)] {
        let page = place.path().join(format!("{name}.html"));
        fs::write(&page, text).unwrap();
        let paper = place.path().join(format!("{name}.pdf"));
        let print = format!("--print-to-pdf={}", paper.display());
        run(browser, &[&print], &page, place.path());
        let paper = fs::read(&paper).unwrap();
        let sheets = String::from_utf8_lossy(&paper)
            .match_indices("/Type /Page\n")
            .count();
        assert!(sheets >= 5, "{name}: {sheets} pages");
    }
}

pub(crate) fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| {
        let found = Command::new(name).arg("--version").output();
        found.is_ok_and(|output| output.status.success())
    })
}

/// The document after its scripts ran, and the browser's log.
fn open(browser: &str, page: &Path, place: &Path) -> (String, String) {
    run(browser, &["--dump-dom"], page, place)
}

/// What the browser wrote to its output and its log.
pub(crate) fn run(browser: &str, actions: &[&str], page: &Path, place: &Path) -> (String, String) {
    let profile = place.join("profile");
    let output = Command::new("timeout")
        .args(["90", browser, "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-background-networking", "--enable-logging=stderr"])
        .args(actions)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}
