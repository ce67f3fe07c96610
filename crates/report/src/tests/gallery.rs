//! The page over a folder of runs.

use std::fs;
use std::path::Path;

use crate::record::FaultClass;
use crate::tests::browser::{browser, run, with_script};
use crate::tests::general_run::General;
use crate::tests::ladder::{fault, ladder};

/// Three runs, one of servers at several rates, and a folder that is no readable run.
fn folder(place: &Path) {
    for (name, day) in [("first", 0), ("second", 1)] {
        let mut run = General::versions(7);
        for record in &mut run.records {
            record.started_unix_ns += day * 86_400_000_000_000;
        }
        run.plan.question = format!("What does the {name} run ask?");
        fs::rename(run.write(place), place.join(name)).unwrap();
    }
    fs::write(place.join("first/report.html"), "").unwrap();
    let mut ladder = ladder(5);
    let first = ladder.measured("s-curtail-0-00");
    fault(first, FaultClass::Failing, "12 % errors");
    fs::rename(ladder.write(place), place.join("ladder")).unwrap();
    fs::create_dir(place.join("broken")).unwrap();
    fs::write(place.join("broken/plan.toml"), "schema = 1").unwrap();
    fs::create_dir(place.join("other")).unwrap();
}

#[test]
fn every_readable_run_has_a_card_the_latest_first() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let gallery = crate::gallery(place.path()).unwrap();
    assert_eq!(gallery.runs, 3);
    let names: Vec<&str> = gallery
        .unreadable
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["broken"]);
    let html = fs::read_to_string(&gallery.page).unwrap();
    assert_eq!(html.matches("<article").count(), 3);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
    assert!(at("What does the second run ask?") < at("What does the first run ask?"));
    // Only a run with a report has a link to it.
    assert_eq!(html.matches("/report.html\"").count(), 1);
    at("<a href=\"first/report.html\">versions</a>");
    at("curtail fails in 1 of 124 trials: 12 % errors.");
    // The names of figures are unique within the page.
    let ids = html
        .match_indices(" id=\"")
        .map(|(at, it)| html[at + it.len()..].split('"').next());
    let mut ids: Vec<_> = ids.collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert!(count > 6, "{count}");
    // Made again, it does not take its own page for a run.
    assert_eq!(crate::gallery(place.path()).unwrap().runs, 3);
}

#[test]
fn a_folder_without_runs_gives_an_empty_page_and_an_absent_one_an_error() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(crate::gallery(place.path()).unwrap().runs, 0);
    let absent = crate::gallery(&place.path().join("absent")).unwrap_err();
    assert!(absent.to_string().contains("absent"), "{absent}");
}

/// Searches, and puts two runs side by side; leaves in the document how many cards were shown.
const SEARCHER: &str = r"
<script>
const shown = () => [...document.querySelectorAll('.card')].filter((it) => it.offsetHeight).length;
const words = document.getElementById('words');
const side = document.getElementById('side');
const seen = [shown()];
const search = (text) => { words.value = text; words.dispatchEvent(new Event('input')); seen.push(shown()); };
search('SECOND run');
search('no such words');
search('');
const boxes = [...document.querySelectorAll('.card input')];
seen.push(side.disabled ? 'disabled' : 'enabled');
for (const box of boxes.slice(0, 2)) box.click();
seen.push(side.disabled ? 'disabled' : 'enabled');
side.click();
seen.push(shown());
const [a, b] = [...document.querySelectorAll('.card')].filter((it) => it.offsetHeight).map((it) => it.getBoundingClientRect());
seen.push(a.top === b.top && a.right <= b.left ? 'beside' : 'below');
side.click();
seen.push(shown());
const press = (key) => dispatchEvent(new KeyboardEvent('keydown', { key }));
press('b');
seen.push(shown());
press('Escape');
seen.push(shown());
press('b');
press('/');
seen.push(document.activeElement === words ? 'focus' : 'none');
// A letter of a search is no command, and a search is over all runs.
press('b');
seen.push(shown());
search('run');
press('Escape');
seen.push(document.getElementById('found').textContent.replaceAll(' ', '_'));
const root = document.documentElement;
seen.push(root.scrollWidth - root.clientWidth);
document.body.dataset.seen = seen.join(' ');
</script>
";

#[test]
fn the_script_searches_and_puts_runs_side_by_side() {
    let Some(browser) = browser() else {
        println!("skipped: chromium not installed");
        return;
    };
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let gallery = crate::gallery(place.path()).unwrap();
    let html = fs::read_to_string(&gallery.page).unwrap();
    let visited = with_script(&html, SEARCHER, place.path());
    let wide = ["--dump-dom", "--window-size=1400,900"];
    let (document, log) = run(browser, &wide, &visited, place.path());
    assert!(!log.contains("CONSOLE"), "{log}");
    let seen = "data-seen=\"3 1 0 3 disabled enabled 2 beside 3 2 3 focus 2 2 2_chosen 0\"";
    let found = document
        .split("data-seen=")
        .nth(1)
        .map(|it| it.chars().take(80).collect::<String>());
    assert!(document.contains(seen), "{found:?}");
}
