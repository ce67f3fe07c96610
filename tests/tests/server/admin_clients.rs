//! The pages of the admin address, read by other programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use curtail_tests::admin::{AdminServer, get};
use curtail_tests::process::target_folder;

/// The exit code of a script that cannot run here and has printed the reason.
const SKIPPED: i32 = 77;

#[test]
fn other_parsers_find_nothing_wrong() {
    let admin = AdminServer::start(&[]).unwrap();
    admin.cache().unwrap().set("key", b"value").unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut pages = Vec::new();
    for (name, accept) in [
        ("openmetrics", "application/openmetrics-text"),
        ("text", "text/plain"),
    ] {
        let fields = format!("Accept: {accept}\r\n");
        let page = get(&mut admin.client().unwrap(), "/metrics", &fields).unwrap();
        assert!(
            page.content_type.starts_with(accept),
            "{}",
            page.content_type
        );
        let path = place.path().join(name);
        fs::write(&path, page.body).unwrap();
        pages.push(path);
    }
    let folder = target_folder().unwrap().join("clients/openmetrics");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/openmetrics.sh");
    let output = Command::new(script)
        .arg(folder)
        .args(pages)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    eprintln!("{}", said.trim_end());
    if output.status.code() != Some(SKIPPED) {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{errors}");
    }
}

#[test]
fn curl_reads_every_page() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not installed");
        return;
    }
    let admin = AdminServer::start(&[]).unwrap();
    let paths = ["/", "/metrics", "/stats.json", "/health", "/ready"];
    let mut command = Command::new("curl");
    // All on one connection, which it says in its last line.
    command.args(["--silent", "--show-error", "--fail", "--max-time", "10"]);
    command.args(["--write-out", "%{stderr}%{num_connects}\n"]);
    command.args(paths.map(|path| admin.url(path)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let connects = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{connects}");
    for expected in [
        "<title>Curtail</title>",
        "# EOF\n",
        "\"settings\": {",
        "ok\n",
        "ready\n",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert_eq!(connects, "1\n0\n0\n0\n0\n");

    let head = Command::new("curl")
        .args(["--silent", "--head", "--max-time", "10"])
        .arg(admin.url("/health"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&head.stdout).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn a_browser_reads_the_pages() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let browser = names.into_iter().find(|name| {
        let found = Command::new(name).arg("--version").output();
        found.is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    let admin = AdminServer::start(&[]).unwrap();
    let place = tempfile::tempdir().unwrap();
    for (path, expected) in [
        ("/", "<a href=\"/stats.json\">"),
        ("/stats.json", "\"settings\": {"),
        // It shows the page rather than saving it, because it is told that it is plain text.
        ("/metrics", "# TYPE curtail_info gauge"),
    ] {
        let output = Command::new("timeout")
            .args(["90", browser, "--headless", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-background-networking", "--dump-dom"])
            .arg(format!(
                "--user-data-dir={}",
                place.path().join("profile").display()
            ))
            .arg(admin.url(path))
            .output()
            .unwrap();
        let document = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && document.contains(expected),
            "{path}: {output:?}"
        );
    }
}
