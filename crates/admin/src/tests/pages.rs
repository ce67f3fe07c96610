//! The pages of figures.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::tests::client::get;
use crate::tests::example::Example;

const EXAMPLE: Example = Example::DEFAULT;

#[test]
fn metrics_of_a_server() {
    let page = get(EXAMPLE, "/metrics", "");
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(page.header("Content-Type"), Some(content_type));
    insta::assert_snapshot!(page.body);
}

#[test]
fn metrics_in_the_older_format() {
    let page = get(EXAMPLE, "/metrics", "Accept: text/plain\r\n");
    let content_type = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(page.header("Content-Type"), Some(content_type));
    assert!(!page.body.contains("# EOF") && !page.body.contains("# UNIT"));
    assert!(page.body.contains("# TYPE curtail_cmd_get_total counter\n"));
    assert!(page.body.contains("# TYPE curtail_info gauge\n"));
    // The samples are the same.
    let samples = |body: &str| -> Vec<String> {
        let lines = body.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        samples(&page.body),
        samples(&get(EXAMPLE, "/metrics", "").body)
    );
}

#[test]
fn stats_of_a_server_as_json() {
    let page = get(EXAMPLE, "/stats.json", "");
    assert_eq!(page.header("Content-Type"), Some("application/json"));
    let json: Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(json["stats"]["cmd_get"], 991);
    assert_eq!(json["stats"]["rusage_user"], 12.345678);
    assert_eq!(json["stats"]["version"], "1.6.45");
    assert_eq!(json["settings"]["maxbytes"], 67_108_864);
    assert_eq!(json["settings"]["umask"], "700", "a text stays one");
    assert_eq!(json["latency"]["get"]["count"], 991);
    insta::assert_snapshot!(page.body);
}

#[test]
fn without_latencies_there_is_no_histogram_rather_than_an_empty_one() {
    let untimed = Example {
        is_timed: false,
        ..EXAMPLE
    };
    assert!(
        !get(untimed, "/metrics", "")
            .body
            .contains("command_duration")
    );
    let page = get(untimed, "/stats.json", "");
    let json: Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(json["latency"], Value::Null);
}

#[test]
fn figures_without_a_row_are_exported_too() {
    let newer = Example {
        has_unlisted: true,
        ..EXAMPLE
    };
    let page = get(newer, "/metrics", "").body;
    for expected in [
        "# TYPE curtail_unlisted_new_figure unknown\n",
        // Of two names that become the same, one is left out: a family may not occur twice.
        "\ncurtail_unlisted_new_figure 7\n",
        "\ncurtail_unlisted_cmd_get_total 9\n",
        ",unlisted_new_text=\"\\\"a\\\\b\\\"\\nc\"} 1\n",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
    check(&page);
    assert!(!get(EXAMPLE, "/metrics", "").body.contains("unlisted"));
}

#[test]
fn every_page_is_small_and_well_formed_whatever_the_figures_are() {
    for number in [None, Some(0), Some(u64::MAX / 16), Some(u64::MAX)] {
        for is_timed in [false, true] {
            let example = Example {
                number,
                is_timed,
                ..EXAMPLE
            };
            let page = get(example, "/metrics", "").body;
            check(&page);
            assert!(page.len() < 32 * 1024, "{}", page.len());
            let page = get(example, "/stats.json", "").body;
            assert!(page.len() < 32 * 1024, "{}", page.len());
        }
    }
}

/// The rules of OpenMetrics that a page may break: metadata before samples and in one piece, no
/// family or sample twice, suffixes by type, cumulative buckets with a last one for `+Inf`.
fn check(page: &str) {
    let body = page
        .strip_suffix("# EOF\n")
        .expect("a page ends with # EOF");
    let mut families: BTreeMap<&str, &str> = BTreeMap::new();
    let mut samples = BTreeSet::new();
    let (mut family, mut kind) = ("", "");
    let mut last_bucket: Option<(String, u64)> = None;
    for line in body.lines() {
        if let Some(metadata) = line.strip_prefix("# ") {
            let words: Vec<&str> = metadata.splitn(3, ' ').collect();
            let [what, name, rest] = words[..] else {
                panic!("{line}");
            };
            if what == "TYPE" {
                (family, kind) = (name, rest);
                assert_eq!(families.insert(family, kind), None, "{line}");
            }
            assert_eq!(name, family, "{line}");
            assert!(
                what != "UNIT" || name.ends_with(&format!("_{rest}")),
                "{line}"
            );
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(samples.insert(series), "{line}");
        let name = series.split('{').next().unwrap();
        let suffix = name.strip_prefix(family).expect(line);
        let allowed: &[&str] = match kind {
            "counter" => &["_total"],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        assert!(allowed.contains(&suffix), "{line}");
        if suffix == "_bucket" {
            let (labels, bound) = series.split_once("le=\"").unwrap();
            let count: u64 = value.parse().unwrap();
            if let Some((before, below)) = &last_bucket {
                assert!(before == labels && *below <= count, "{line}");
            }
            let is_last = bound.starts_with("+Inf");
            last_bucket = (!is_last).then(|| (labels.to_owned(), count));
        } else {
            assert_eq!(last_bucket, None, "{line}");
        }
    }
}

/// Writes the page in both formats for other parsers:
/// `ADMIN_PAGES=FOLDER cargo test -p admin pages_are_written`, then
/// `tests/clients/openmetrics.sh`.
#[test]
fn pages_are_written_where_they_are_asked_for() {
    let Some(folder) = std::env::var_os("ADMIN_PAGES") else {
        return;
    };
    let folder = std::path::Path::new(&folder);
    for (name, example) in [
        ("plain", EXAMPLE),
        (
            "unlisted",
            Example {
                has_unlisted: true,
                ..EXAMPLE
            },
        ),
        (
            "most",
            Example {
                number: Some(u64::MAX),
                is_timed: false,
                ..EXAMPLE
            },
        ),
    ] {
        let page = get(example, "/metrics", "").body;
        std::fs::write(folder.join(format!("{name}.openmetrics")), page).unwrap();
        let page = get(example, "/metrics", "Accept: text/plain\r\n").body;
        std::fs::write(folder.join(format!("{name}.text")), page).unwrap();
    }
}
