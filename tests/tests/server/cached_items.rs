//! Items of the cache over HTTP (`--http-cache`), on every runtime.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use curtail_tests::client::Client;
use curtail_tests::process::{Server, curtail_path};
use runtime::Kind;

/// The longest time that a server or an answer may take.
const TIMEOUT: Duration = Duration::from_secs(20);

struct Both {
    _server: Server,
    cache: Client,
    http: SocketAddr,
    _root: tempfile::TempDir,
}

impl Both {
    fn start(kind: Kind) -> Self {
        Self::start_with(kind, &["-m", "64"])
    }

    fn start_with(kind: Kind, arguments: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "document").unwrap();
        let (server, http) = Server::tcp_and(|http| {
            let mut command = Command::new(curtail_path());
            command.args(["serve", "--runtime", kind.name(), "--http-cache"]);
            command.args(arguments);
            command.args(["--http", &http.to_string(), "--root"]);
            command.arg(root.path());
            command
        })
        .unwrap();
        Self {
            cache: Client::connect(&server.address).unwrap(),
            _server: server,
            http,
            _root: root,
        }
    }

    /// Sends requests on one connection, of which the last one closes it.
    fn send(&self, requests: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(requests).unwrap();
        let mut answers = Vec::new();
        stream.read_to_end(&mut answers).unwrap();
        String::from_utf8(answers).unwrap()
    }

    fn request(&self, method: &str, target: &str, fields: &str, body: &str) -> String {
        let len = body.len();
        let length = if body.is_empty() {
            String::new()
        } else {
            format!("Content-Length: {len}\r\n")
        };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{length}{fields}\r\n"
        );
        self.send([head.as_bytes(), body.as_bytes()].concat().as_slice())
    }
}

fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let line = answer.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name}: {answer}")).trim()
}

/// The condition is decided by the deletion itself, which also removes an item that is in the tier
/// only.
#[test]
fn an_item_in_the_tier_is_deleted_if_any_item_matches() {
    everywhere_with_tier(|mut both, name| {
        both.cache.set("key", b"value").unwrap();
        both.cache.evict_to_tier(2 << 20, 1).unwrap();
        let delete = |fields: &str| both.request("DELETE", "/cache/key", fields, "");
        let absent = delete("If-None-Match: *\r\n");
        assert!(absent.starts_with("HTTP/1.1 412 "), "{name}: {absent}");
        let present = delete("If-Match: *\r\n");
        assert!(present.starts_with("HTTP/1.1 204 "), "{name}: {present}");
        let gone = delete("If-Match: *\r\n");
        assert!(gone.starts_with("HTTP/1.1 412 "), "{name}: {gone}");
        assert_eq!(both.cache.get("key").unwrap(), None, "{name}");
    });
}

#[test]
fn items_of_the_tier_are_read_for_requests_that_depend_on_them() {
    everywhere_with_tier(|mut both, name| {
        // An item that has been read may stay in memory, so each request gets a new one.
        let mut items = 0;
        let mut cold = |method: &str, condition: &str, body: &str| {
            items += 1;
            let set = format!("ms item{items} 7 c\r\na value");
            let stored = both.cache.request(&set).unwrap();
            let tag = format!("\"{}\"", stored.strip_prefix("HD c").unwrap());
            both.cache.evict_to_tier(2 << 20, 1).unwrap();
            let fields = match condition {
                "" => String::new(),
                _ => format!("{}\r\n", condition.replace("TAG", &tag)),
            };
            let answer = both.request(method, &format!("/cache/item{items}"), &fields, body);
            let left = both.request("GET", &format!("/cache/item{items}"), "", "");
            both.cache.request(&format!("delete item{items}")).unwrap();
            (answer, left, tag)
        };
        let (got, _, tag) = cold("GET", "", "");
        assert!(got.ends_with("\r\n\r\na value"), "{name}: {got}");
        assert_eq!(field(&got, "ETag:"), tag, "{name}");
        let (head, _, tag) = cold("HEAD", "", "");
        assert_eq!(field(&head, "ETag:"), tag, "{name}: {head}");
        let expected = [
            ("PUT", "If-None-Match: *", "412", "a value"),
            ("PUT", "If-Match: *", "204", "new"),
            ("PUT", "If-Match: TAG", "204", "new"),
            ("PUT", "If-Match: \"1\"", "412", "a value"),
            ("DELETE", "If-Match: TAG", "204", "no such item\n"),
            ("DELETE", "If-Match: \"1\"", "412", "a value"),
        ];
        for (method, condition, status, end) in expected {
            let body = if method == "PUT" { "new" } else { "" };
            let (answer, left, _) = cold(method, condition, body);
            let is_right = answer.starts_with(&format!("HTTP/1.1 {status} "));
            assert!(is_right, "{name}, {method}, {condition}: {answer}");
            assert!(left.ends_with(end), "{name}, {method}, {condition}: {left}");
        }
        let read = both.cache.stat("get_extstore").unwrap();
        assert_eq!(read, 8, "{name}");
    });
}

/// The runtimes of this machine.
fn kinds() -> impl Iterator<Item = Kind> {
    let kinds = Kind::OVER_SOCKETS.into_iter();
    kinds.filter(|kind| kind.probe().is_ok())
}

fn everywhere(test: impl Fn(Both, &str)) {
    for kind in kinds() {
        test(Both::start(kind), kind.name());
    }
}

/// With a memory of 2 MiB and a tier below it.
fn everywhere_with_tier(test: impl Fn(Both, &str)) {
    for kind in kinds() {
        let folder = tempfile::tempdir().unwrap();
        let tier = format!("{}:32m", folder.path().join("tier").display());
        let arguments = ["-m", "2", "-I", "512k", "-u", "root", "--tier", &tier];
        test(Both::start_with(kind, &arguments), kind.name());
    }
}

#[test]
fn items_of_both_protocols_are_the_same() {
    everywhere(|mut both, name| {
        both.cache.set("text", b"by memcached").unwrap();
        let got = both.request("GET", "/cache/text", "", "");
        assert!(got.starts_with("HTTP/1.1 200 "), "{name}: {got}");
        assert!(got.ends_with("\r\n\r\nby memcached"), "{name}: {got}");
        let put = both.request("PUT", "/cache/a%2Fb%25", "", "by HTTP");
        assert!(put.starts_with("HTTP/1.1 204 "), "{name}: {put}");
        assert_eq!(
            both.cache.get("a/b%").unwrap().unwrap(),
            b"by HTTP",
            "{name}"
        );
        let head = both.request("HEAD", "/cache/a%2Fb%25", "", "");
        assert_eq!(field(&head, "Content-Length:"), "7", "{name}");
        assert!(head.ends_with("\r\n\r\n"), "{name}: {head}");
        let part = both.request("GET", "/cache/text", "Range: bytes=3-5\r\n", "");
        assert!(
            part.starts_with("HTTP/1.1 206 ") && part.ends_with("mem"),
            "{name}: {part}"
        );
        assert!(
            both.request("DELETE", "/cache/text", "", "")
                .starts_with("HTTP/1.1 204 ")
        );
        assert_eq!(both.cache.get("text").unwrap(), None, "{name}");
        assert!(
            both.request("DELETE", "/cache/text", "", "")
                .starts_with("HTTP/1.1 404 ")
        );
        assert!(
            both.request("GET", "/cache/text", "", "")
                .starts_with("HTTP/1.1 404 ")
        );
        assert!(
            both.request("GET", "/a", "", "").ends_with("document"),
            "{name}"
        );
    });
}

#[test]
fn conditions_compare_the_cas() {
    everywhere(|both, name| {
        let put = |fields: &str, body: &str| both.request("PUT", "/cache/k", fields, body);
        assert!(
            put("If-Match: *\r\n", "a").starts_with("HTTP/1.1 412 "),
            "{name}"
        );
        let first = put("If-None-Match: *\r\n", "first");
        let tag = field(&first, "ETag:");
        assert!(
            put("If-None-Match: *\r\n", "a").starts_with("HTTP/1.1 412 "),
            "{name}"
        );
        let unchanged = format!("If-None-Match: {tag}\r\n");
        let got = both.request("GET", "/cache/k", &unchanged, "");
        assert!(got.starts_with("HTTP/1.1 304 "), "{name}: {got}");
        let same = format!("If-Match: {tag}\r\n");
        let second = put(&same, "second");
        assert!(second.starts_with("HTTP/1.1 204 "), "{name}: {second}");
        assert_ne!(field(&second, "ETag:"), tag, "{name}");
        assert!(put(&same, "third").starts_with("HTTP/1.1 412 "), "{name}");
        let delete = |fields: &str| both.request("DELETE", "/cache/k", fields, "");
        assert!(delete(&same).starts_with("HTTP/1.1 412 "), "{name}");
        assert!(
            both.request("GET", "/cache/k", "", "").ends_with("second"),
            "{name}"
        );
        assert!(
            delete("If-Match: *\r\n").starts_with("HTTP/1.1 204 "),
            "{name}"
        );
        assert!(
            put("If-Match: \"1\", \"2\"\r\n", "a").starts_with("HTTP/1.1 400 "),
            "{name}"
        );
    });
}

#[test]
fn times_to_live_and_bounds() {
    everywhere(|mut both, name| {
        both.request(
            "PUT",
            "/cache/ttl?ttl=100",
            "Cache-Control: max-age=5\r\n",
            "x",
        );
        both.request(
            "PUT",
            "/cache/age",
            "Cache-Control: public, max-age=50\r\n",
            "x",
        );
        both.request("PUT", "/cache/past?ttl=0", "", "x");
        for (key, low, high) in [("ttl", 95, 100), ("age", 45, 50)] {
            let got = both.request("GET", &format!("/cache/{key}"), "", "");
            let left = field(&got, "Cache-Control: max-age=")
                .parse::<u32>()
                .unwrap();
            assert!((low..=high).contains(&left), "{name}: {left}");
        }
        assert_eq!(both.cache.get("past").unwrap(), None, "{name}");
        let long = format!("/cache/{}", "k".repeat(251));
        for target in [
            "/cache/",
            "/cache/a%20b",
            "/cache/%00",
            "/cache/%zz",
            &long,
            "/cache/a?ttl=x",
        ] {
            let answer = both.request("PUT", target, "", "x");
            assert!(
                answer.starts_with("HTTP/1.1 400 "),
                "{name}, {target}: {answer}"
            );
        }
        let large = "v".repeat(900_000);
        assert!(
            both.request("PUT", "/cache/large", "", &large)
                .starts_with("HTTP/1.1 204 "),
            "{name}"
        );
        assert!(
            both.request("GET", "/cache/large", "", "")
                .ends_with(&large),
            "{name}"
        );
        // Rejected by its length, before it is sent.
        let announced = both.request("PUT", "/cache/x", "Content-Length: 2000000\r\n", "");
        assert!(
            announced.starts_with("HTTP/1.1 413 "),
            "{name}: {announced}"
        );
        let to_document = both.request("PUT", "/a", "", "x");
        assert!(
            to_document.starts_with("HTTP/1.1 413 "),
            "{name}: {to_document}"
        );
        let post = both.request("POST", "/cache/x", "", "x");
        assert!(
            post.contains("Allow: GET, HEAD, PUT, DELETE\r\n"),
            "{name}: {post}"
        );
    });
}

#[test]
fn requests_with_bodies_are_pipelined() {
    everywhere(|both, name| {
        let put = "PUT /cache/p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none";
        let get = "GET /cache/p HTTP/1.1\r\nHost: x\r\n\r\n";
        let last = "GET /cache/p HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let answers = both.send(
            [put, get, &put.replace("one", "two"), last]
                .concat()
                .as_bytes(),
        );
        assert_eq!(
            answers.matches("HTTP/1.1 204 ").count(),
            2,
            "{name}: {answers}"
        );
        assert!(
            answers.contains("\r\n\r\none") && answers.ends_with("\r\n\r\ntwo"),
            "{name}: {answers}"
        );
    });
}
