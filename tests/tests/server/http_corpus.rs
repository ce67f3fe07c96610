//! The answers of Curtail to the requests of `tests/http/`, those of hyper, and those of nginx,
//! Apache and llhttp if they are installed. With `CURTAIL_HTTP_RECORD=1`, what they do is written
//! to the files instead.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;

mod hyper_server;

use curtail_tests::http_corpus::{
    self, Case, Chapter, Site, observe, read, read_items, read_named_lines,
};
use curtail_tests::web_servers::{Peer, start};
use hyper_server::HyperServer;

/// Connections to Curtail at the same time.
const CONNECTIONS: usize = 128;
/// The same to a peer. Apache is started with twice as many threads.
const PEER_CONNECTIONS: usize = 32;

fn records() -> bool {
    env::var_os("CURTAIL_HTTP_RECORD").is_some()
}

/// Observes what a server does with the cases of some chapters, and compares it with the corpus, or
/// records it there. Returns the differences.
fn compare(
    server: &str,
    chapters: &mut [Chapter],
    observed: impl Fn(&[Vec<u8>]) -> Vec<String>,
) -> Vec<String> {
    let mut cases: Vec<&mut Case> = chapters.iter_mut().flat_map(|it| &mut it.cases).collect();
    let inputs: Vec<Vec<u8>> = cases.iter().map(|it| it.bytes().unwrap()).collect();
    let seen = observed(&inputs);
    let mut differences = Vec::new();
    for (case, seen) in cases.iter_mut().zip(seen) {
        // The peers follow links, also out of the root.
        let follows_link = server != "curtail" && case.name.starts_with("path-link");
        let is_secret = seen.contains("SECRET") && !follows_link;
        assert!(!is_secret, "{server}, {}: {seen}", case.name);
        let kept = case.outcomes.insert(server.to_owned(), seen.clone());
        if kept.as_ref() != Some(&seen) {
            let kept = kept.unwrap_or_default();
            differences.push(format!("{server}, {}: `{seen}`, not `{kept}`", case.name));
        }
    }
    differences
}

/// Ends the comparison with a server: writes the corpus, or reports the differences.
fn finish(chapters: &[Chapter], differences: &[String]) {
    if records() {
        chapters
            .iter()
            .for_each(|chapter| http_corpus::write(chapter).unwrap());
    } else {
        assert!(differences.is_empty(), "{}", differences.join("\n"));
    }
}

#[test]
fn curtail_answers_as_recorded() {
    let site = Site::make().unwrap();
    let mut chapters = read().unwrap();
    let (_server, address) = start(&site.root(), &[]).unwrap();
    let observed = |inputs: &[Vec<u8>]| observe(address, inputs, CONNECTIONS).unwrap();
    let differences = compare("curtail", &mut chapters, observed);
    finish(&chapters, &differences);
}

/// With the items of the cache, documents are answered as without, but for the cases of
/// `with-cache.txt`.
#[test]
fn curtail_with_items_of_the_cache_answers_as_recorded() {
    let site = Site::make().unwrap();
    let (_server, address) = start(&site.root(), &["--http-cache"]).unwrap();
    let observed = |inputs: &[Vec<u8>]| observe(address, inputs, CONNECTIONS).unwrap();
    let mut chapters = read().unwrap();
    let others: BTreeMap<_, _> = read_named_lines("with-cache.txt")
        .unwrap()
        .into_iter()
        .collect();
    for case in chapters.iter_mut().flat_map(|it| &mut it.cases) {
        if let Some(other) = others.get(&case.name) {
            case.outcomes.insert("curtail".to_owned(), other.clone());
        }
    }
    let differences = compare("curtail", &mut chapters, observed);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let mut items = [read_items().unwrap()];
    let differences = compare("curtail", &mut items, observed);
    finish(&items, &differences);
    // What a head announces as a body is never a request.
    for case in &items[0].cases {
        let outcome = &case.outcomes["curtail"];
        assert!(!outcome.contains("smuggled"), "{}: {outcome}", case.name);
    }
}

#[test]
fn peers_answer_as_recorded() {
    if records() {
        // Both tests would write the same files.
        return;
    }
    peers();
}

#[test]
#[ignore = "writes the answers of the peers to the corpus"]
fn record_the_peers() {
    peers();
}

fn peers() {
    let site = Site::make().unwrap();
    let mut chapters = read().unwrap();
    let (peers, missing) = Peer::all();
    for name in missing {
        eprintln!("skipped: {name} is not installed");
    }
    let recorded: BTreeMap<_, _> = read_named_lines("versions.txt")
        .unwrap()
        .into_iter()
        .collect();
    let mut differences = Vec::new();
    for peer in &peers {
        if !is_recorded(&recorded, peer.name, &peer.version) {
            continue;
        }
        let Ok((_server, address)) = peer.start(site.path(), &site.root()) else {
            eprintln!("skipped: {} does not start here", peer.name);
            continue;
        };
        let framing = chapters.len() - if peer.serves_files() { 0 } else { 2 };
        let observed = |inputs: &[Vec<u8>]| observe(address, inputs, CONNECTIONS).unwrap();
        differences.extend(compare(peer.name, &mut chapters[..framing], observed));
    }
    differences.extend(hyper(&mut chapters, &recorded));
    if records() {
        let mut text = "# The versions of the servers whose answers are recorded.\n".to_owned();
        for peer in &peers {
            text += &format!("{} {}\n", peer.name, peer.version);
        }
        text += &format!("hyper {}\n", HyperServer::version());
        fs::write(http_corpus::folder().join("versions.txt"), text).unwrap();
    }
    finish(&chapters, &differences);
}

/// Whether the answers of a peer are to be observed: all are recorded, or those of this version are
/// already.
fn is_recorded(recorded: &BTreeMap<String, String>, name: &str, version: &str) -> bool {
    let is_recorded = records() || recorded.get(name).is_some_and(|it| it == version);
    if !is_recorded {
        eprintln!("skipped: {name} {version} is not the recorded version");
    }
    is_recorded
}

/// As other peers. The server has no files.
fn hyper(chapters: &mut [Chapter], recorded: &BTreeMap<String, String>) -> Vec<String> {
    let version = HyperServer::version();
    if !is_recorded(recorded, "hyper", &version) {
        return Vec::new();
    }
    let server = HyperServer::start().unwrap();
    let framing = chapters.len() - 2;
    let observed = |inputs: &[Vec<u8>]| observe(server.address, inputs, PEER_CONNECTIONS).unwrap();
    compare("hyper", &mut chapters[..framing], observed)
}

/// The server never answers a request that another one could see as a body.
#[test]
fn no_request_is_answered_that_another_server_could_see_in_a_body() {
    for chapter in read().unwrap() {
        for case in &chapter.cases {
            let outcome = &case.outcomes["curtail"];
            let is_hidden =
                case.name.contains("hides-request") || case.name.contains("hide-request");
            let is_framed = !case.name.starts_with("upgrade") && is_hidden;
            assert!(
                !(is_framed && outcome.contains("smuggled")),
                "{}: {outcome}",
                case.name
            );
        }
    }
}

/// Each disagreement has a reason, and the page of the documentation lists it.
#[test]
fn disagreements_have_reasons_and_the_page_lists_them() {
    let chapters = read().unwrap();
    let reasons: Vec<(String, String)> = read_named_lines("reasons.txt").unwrap();
    for case in chapters.iter().flat_map(|it| &it.cases) {
        let is_known = |why: &String| reasons.iter().any(|(name, _)| name == why);
        let why = case.why.as_ref();
        assert_eq!(
            case.is_disputed(),
            why.is_some_and(is_known),
            "case {}: {why:?}",
            case.name
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/http.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, _) = page.split_once(MARK).unwrap();
    let listed: String = reasons
        .iter()
        .map(|(name, why)| format!("| {name} | {why} |\n"))
        .collect();
    let generated = format!(
        "{before}{MARK}\n\n| reason | |\n|---|---|\n{listed}{}{}",
        http_corpus::table(&chapters).unwrap(),
        http_corpus::item_table(&read_items().unwrap())
    );
    if env::var_os("CURTAIL_HTTP_RECORD").is_some() {
        fs::write(&path, generated).unwrap();
    } else {
        assert!(
            page == generated,
            "{} is not that of tests/http/",
            path.display()
        );
    }
}

/// What follows in the page is made of the corpus.
const MARK: &str = "## Disagreements";
