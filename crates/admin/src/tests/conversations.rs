//! What a client sends, and what it is told.

use http::limits::HEAD_LEN_MAX;
use http::limits::HEAD_TIME_MAX_NS;

use crate::tests::client::{Client, Response, ask, get, responses};
use crate::tests::example::Example;

const EXAMPLE: Example = Example::DEFAULT;

fn statuses(client: &Client) -> Vec<String> {
    let all = responses(&client.received, |_| false);
    all.iter().map(|it| it.status().to_owned()).collect()
}

#[test]
fn the_pages_are_where_the_index_says() {
    let index = get(EXAMPLE, "/", "");
    assert_eq!(
        index.header("Content-Type"),
        Some("text/html; charset=utf-8")
    );
    assert!(index.body.contains("color-scheme"), "{}", index.body);
    assert!(!index.body.contains("<script"), "{}", index.body);
    let links: Vec<&str> = index
        .body
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert_eq!(links, ["/metrics", "/stats.json", "/health", "/ready"]);
    for link in links {
        assert_eq!(get(EXAMPLE, link, "").status(), "200", "{link}");
    }
}

#[test]
fn health_and_readiness_differ() {
    let stopping = Example {
        is_ready: false,
        ..EXAMPLE
    };
    let told = |response: Response| (response.status().to_owned(), response.body);
    assert_eq!(
        told(get(EXAMPLE, "/health", "")),
        ("200".to_owned(), "ok\n".to_owned())
    );
    assert_eq!(told(get(stopping, "/health", "")).0, "200");
    assert_eq!(told(get(EXAMPLE, "/ready", "")).0, "200");
    assert_eq!(told(get(stopping, "/ready", "")).0, "503");
}

#[test]
fn a_head_gets_the_head_of_a_get() {
    for path in ["/", "/metrics", "/stats.json", "/health", "/nothing"] {
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        let head = ask(EXAMPLE, &request);
        assert_eq!(head.body, "");
        assert_eq!(head.head, get(EXAMPLE, path, "").head);
    }
}

#[test]
fn other_methods_and_paths_are_told_what_there_is() {
    let post = ask(EXAMPLE, "POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(
        (post.status(), post.header("Allow")),
        ("405", Some("GET, HEAD"))
    );
    let lower = ask(EXAMPLE, "get /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(lower.status(), "405", "methods are case-sensitive");
    let missing = get(EXAMPLE, "/favicon.ico", "");
    assert_eq!(missing.status(), "404");
    for path in ["/metrics", "/stats.json", "/health", "/ready"] {
        assert!(missing.body.contains(path), "{}", missing.body);
    }
    assert_eq!(get(EXAMPLE, "/health?verbose", "").status(), "200");
    assert_eq!(get(EXAMPLE, "http://host:1/health", "").status(), "200");
}

#[test]
fn a_connection_serves_many_requests_in_order() {
    let mut client = Client::new(EXAMPLE, 4);
    let paths = ["/health", "/nothing", "/ready"].repeat(7);
    for path in &paths {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    }
    assert_eq!(statuses(&client), ["200", "404", "200"].repeat(7));

    let mut pipelined = Client::new(EXAMPLE, 4);
    let requests = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    pipelined.send(requests.collect::<String>().as_bytes());
    assert_eq!(pipelined.received, client.received);
    assert!(!client.is_closed && client.unconsumed() == 0);
}

#[test]
fn the_output_of_a_pipeline_is_bounded() {
    let mut client = Client::new(EXAMPLE, 100);
    let count = 500;
    client.send(&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(count));
    assert_eq!(statuses(&client).len(), count);
    let page_len = client.received.len() / count;
    let bound = service::limits::OUTPUT_SOFT_MAX + page_len;
    assert!(
        client.output_len_max <= bound,
        "{} of {bound}",
        client.output_len_max
    );
}

#[test]
fn nothing_is_answered_after_the_connection_closes() {
    let health = "GET /health HTTP/1.1\r\nHost: x\r\n";
    for (first, status, told) in [
        (
            format!("{health}Connection: close\r\n\r\n"),
            "200",
            Some("close"),
        ),
        (
            "GET /health HTTP/1.0\r\n\r\n".to_owned(),
            "200",
            Some("close"),
        ),
        (
            format!("{health}Content-Length: 5\r\n\r\n"),
            "413",
            Some("close"),
        ),
        ("get key\r\n".to_owned(), "400", Some("close")),
        ("GET / HTTP/2.0\r\n\r\n".to_owned(), "505", Some("close")),
    ] {
        let mut client = Client::new(EXAMPLE, 4);
        client.send(format!("{first}{health}\r\n").as_bytes());
        client.send(format!("{health}\r\n").as_bytes());
        let all = responses(&client.received, |_| false);
        assert_eq!(all.len(), 1, "{first}");
        assert_eq!(
            (all[0].status(), all[0].header("Connection")),
            (status, told),
            "{first}"
        );
        assert!(client.is_closed, "{first}");
    }
}

#[test]
fn http_1_0_may_keep_the_connection() {
    let mut client = Client::new(EXAMPLE, 4);
    let request = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    client.send(&request.repeat(2));
    let all = responses(&client.received, |_| false);
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].header("Connection"), Some("keep-alive"));
    assert!(!client.is_closed);
}

#[test]
fn a_huge_head_is_rejected_before_it_ends() {
    let mut client = Client::new(EXAMPLE, 4);
    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\nCookie: ");
    let piece = [b'c'; 1000];
    while !client.is_closed {
        client.send(&piece);
        assert!(client.unconsumed() <= HEAD_LEN_MAX + piece.len());
    }
    assert_eq!(statuses(&client), ["431"]);
}

#[test]
fn a_slow_head_is_rejected_and_a_slow_client_is_not() {
    let request = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut patient = Client::new(EXAMPLE, 4);
    for _ in 0..3 {
        patient.send(request);
        // A line end after a request is no beginning of the next.
        patient.send(b"\r\n");
        patient.advance_ns(10 * HEAD_TIME_MAX_NS);
        patient.send(&request[..9]);
        patient.advance_ns(HEAD_TIME_MAX_NS);
        patient.send(&request[9..]);
    }
    assert_eq!(statuses(&patient), ["200"].repeat(6));

    let mut slow = Client::new(EXAMPLE, 4);
    for byte in request {
        slow.send(&[*byte]);
        slow.advance_ns(1_000_000_000);
    }
    assert_eq!(statuses(&slow), ["408"]);
    assert!(slow.is_closed);
}
