//! Tests of the parser with valid, invalid and random answers that arrive in parts.

use proptest::prelude::*;

use super::*;

/// The outcome of parsing: the status of each complete answer and whether its body is wrong, and
/// the fault that ended the parsing.
type Parsed = (Vec<(u16, bool)>, Option<HttpFault>);

/// Parses answers that arrive in parts. The lengths of the parts are the elements of `parts` in
/// turn. All answers are for file 0, which has 100 bytes. `is_head` says whether the requests were
/// HEAD (otherwise GET).
fn parse(mut reader: AnswerReader, answers: &[u8], parts: &[usize], is_head: bool) -> Parsed {
    let mut replies = Vec::new();
    let mut lens = parts.iter().cycle();
    let mut rest = answers;
    while !rest.is_empty() {
        let mut part = &rest[..(*lens.next().unwrap()).min(rest.len())];
        rest = &rest[part.len()..];
        while !part.is_empty() {
            match reader.advance(part, is_head) {
                Ok(step) => {
                    replies.extend(step.reply.map(|it| (it.status, it.is_wrong)));
                    assert!(step.reply.is_some() || step.consumed == part.len());
                    part = &part[step.consumed..];
                }
                Err(fault) => return (replies, Some(fault)),
            }
        }
    }
    (replies, None)
}

/// Parses answers to GET that arrive at once. Checks that the outcome is the same if they arrive in
/// parts.
fn read(answers: &str) -> Parsed {
    let is_head = false;
    let whole = parse(
        AnswerReader::default(),
        answers.as_bytes(),
        &[usize::MAX],
        is_head,
    );
    for parts in [&[1][..], &[2, 3], &[7]] {
        assert_eq!(
            parse(AnswerReader::default(), answers.as_bytes(), parts, is_head),
            whole
        );
    }
    whole
}

/// An answer with a body of 100 bytes, which is the size of file 0.
fn ok(fields: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{fields}\r\n{}", "x".repeat(100))
}

#[test]
fn body_ends_where_its_framing_says_and_must_have_the_length_of_the_file() {
    let body = "x".repeat(100);
    let with_length = ok("Content-Length: 100\r\n");
    let chunked = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding:  Chunked \r\n\r\n40;a=\"b\"\r\n{}\r\n24 \r\n{}\r\n0\r\n\
         Trailer: 1\r\n\r\n",
        &body[..64],
        &body[64..]
    );
    for (answers, statuses) in [
        (with_length.clone(), vec![(200, false)]),
        (with_length.repeat(3), vec![(200, false); 3]),
        (chunked.repeat(2), vec![(200, false); 2]),
        (
            "HTTP/1.1 404 \r\nContent-Length: 3\r\n\r\nabc".to_owned(),
            vec![(404, false)],
        ),
        (
            "HTTP/1.1 304\r\nContent-Length: 100\r\n\r\n".to_owned(),
            vec![(304, false)],
        ),
        (
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            vec![(204, false)],
        ),
        (
            format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nA: b\r\n\r\n{with_length}"),
            vec![(200, false)],
        ),
        (
            "HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n".to_owned(),
            vec![(503, false)],
        ),
        // An answer with status 200 is wrong if its length is not that of the file.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_owned(),
            vec![(200, true)],
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
            vec![(200, true)],
        ),
        (
            ok("Content-Length: 100\r\nContent-Length: 100\r\n"),
            vec![(200, false)],
        ),
    ] {
        assert_eq!(read(&answers), (statuses, None), "{answers}");
    }
}

#[test]
fn answer_to_a_head_has_no_body() {
    let answers =
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: \
                    7\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let is_head = true;
    let parsed = parse(AnswerReader::default(), answers, &[5], is_head);
    assert_eq!(
        parsed,
        (vec![(200, false), (200, true), (200, false)], None)
    );
}

#[test]
fn invalid_answers_are_faults() {
    use HttpFault::*;
    let many = "A: b\r\n".repeat(HTTP_HEAD_LEN_MAX / 6);
    let long = format!("A: {}\r\n", "b".repeat(HTTP_HEAD_LEN_MAX));
    let interim = "HTTP/1.1 100 \r\n\r\n".repeat(HTTP_INTERIM_MAX as usize + 1);
    let chunks =
        |chunks: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    for (answer, fault) in [
        ("HTTP/2 200 OK\r\n".to_owned(), StatusLine),
        ("HTTP/1.1 20 OK\r\n".to_owned(), StatusLine),
        ("HTTP/1.1 2000\r\n".to_owned(), StatusLine),
        ("HTTP/1.1 -20\r\n".to_owned(), StatusLine),
        ("\r\n".to_owned(), StatusLine),
        ("HTTP/1.1 600 x\r\n".to_owned(), Status),
        ("HTTP/1.1 101 x\r\n\r\n".to_owned(), Status),
        (interim, Status),
        ("HTTP/1.1 200 OK\n".to_owned(), Line),
        (ok("A: b\0\r\n"), Line),
        (ok("A: b\rc\r\n"), Line),
        (ok("Content-Length : 100\r\n"), Field),
        (ok(": 100\r\n"), Field),
        (ok("A\r\n"), Field),
        (ok("A: b\r\n c\r\n"), Field),
        (ok(&many), TooLong),
        (ok(&long), TooLong),
        (ok("Content-Length: -1\r\n"), Length),
        (ok("Content-Length: +1\r\n"), Length),
        (ok("Content-Length: 1e2\r\n"), Length),
        (ok("Content-Length: \r\n"), Length),
        (ok("Content-Length: 100, 100\r\n"), Length),
        (ok("Content-Length: 99999999999999999999\r\n"), Length),
        (ok("Content-Length: 1\r\nContent-Length: 2\r\n"), Length),
        (ok("Transfer-Encoding: gzip\r\n"), Encoding),
        (ok("Transfer-Encoding: chunked, chunked\r\n"), Encoding),
        (
            ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            Encoding,
        ),
        (
            ok("Content-Length: 100\r\nTransfer-Encoding: chunked\r\n"),
            Encoding,
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
            Encoding,
        ),
        (ok(""), NoLength),
        (ok("Connection: close\r\n"), NoLength),
        (chunks("-1\r\n"), Chunk),
        (chunks("0x1\r\n"), Chunk),
        (chunks("\r\n"), Chunk),
        (chunks(" 1\r\n"), Chunk),
        (chunks("fffffffffffffffff\r\n"), Chunk),
        (chunks("1\r\nab\r\n"), Chunk),
        (chunks("1\r\na\n"), Line),
        (
            chunks(&format!("1;{}\r\n", "a".repeat(HTTP_CHUNK_LINE_LEN_MAX))),
            TooLong,
        ),
    ] {
        assert_eq!(read(&answer), (Vec::new(), Some(fault)), "{answer}");
    }
}

#[test]
fn version_and_connection_field_say_whether_the_connection_ends() {
    for (head, closes) in [
        ("HTTP/1.1 204 x\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\nConnection: keep-alive\r\n\r\n", false),
        ("HTTP/1.1 204 x\r\nCONNECTION: x, Close\r\n\r\n", true),
        ("HTTP/1.0 204 x\r\n\r\n", true),
        ("HTTP/1.0 204 x\r\nConnection: keep-alive\r\n\r\n", false),
    ] {
        let mut reader = AnswerReader::default();
        assert!(
            reader
                .advance(head.as_bytes(), false)
                .unwrap()
                .reply
                .is_some()
        );
        assert_eq!(reader.closes(), closes, "{head}");
    }
}

#[test]
fn body_with_other_bytes_than_the_file_is_wrong_if_bytes_are_verified() {
    let (directories, seed) = (1, 7);
    let files = WebFiles::new(directories, seed).unwrap();
    let mut body = [0; 100];
    let (file, offset) = (0, 0);
    files.fill(file, offset, &mut body);
    let answer = |body: &[u8]| [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", body].concat();
    let is_wrong = |body: &[u8], parts: &[usize]| {
        let is_head = false;
        let reader = AnswerReader::new(Some(files));
        let parsed = parse(reader, &answer(body), parts, is_head);
        assert_eq!((parsed.0.len(), parsed.1), (1, None));
        parsed.0[0].1
    };
    for parts in [&[1][..], &[50], &[41, 3, 5], &[1000]] {
        assert!(!is_wrong(&body, parts));
        let mut other = body;
        other[99] ^= 1;
        assert!(is_wrong(&other, parts));
    }
}

#[test]
fn answer_that_never_ends_is_a_fault() {
    let mut reader = AnswerReader::default();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n";
    assert_eq!(reader.advance(head, false).unwrap().reply, None);
    let part = vec![b'x'; 1 << 20];
    let count = (0..).find(|_: &usize| reader.advance(&part, false).is_err());
    // The head counts too, so the last mebibyte of the maximum does not fit.
    assert_eq!(count, Some((HTTP_ANSWER_LEN_MAX >> 20) - 1));
}

/// Pieces of answers. A random sequence of these pieces may be a valid or nearly valid answer.
const PIECES: [&str; 20] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 404 \r\n",
    "HTTP/1.1 100 \r\n",
    "HTTP/1.1 304 x\r\n",
    "Content-Length: 5\r\n",
    "content-length: 100\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "\r\n",
    "\r\n",
    "\r\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n",
    "a;b\r\n",
    "\n",
    "\0",
    " : \r\n",
    "X-Long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
    "\r",
];

proptest! {
    #[test]
    fn parsed_answers_do_not_depend_on_how_the_bytes_are_divided(
        pieces in prop::collection::vec(0..PIECES.len(), 0..24),
        parts in prop::collection::vec(1_usize..40, 1..6),
        is_head: bool,
    ) {
        let answers: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        let whole = parse(AnswerReader::default(), answers.as_bytes(), &[usize::MAX], is_head);
        let divided = parse(AnswerReader::default(), answers.as_bytes(), &parts, is_head);
        prop_assert_eq!(whole, divided);
    }

    #[test]
    fn result_for_any_bytes_after_a_status_line_does_not_depend_on_their_division(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        parts in prop::collection::vec(1_usize..40, 1..6),
    ) {
        let answers = [b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat();
        let whole = parse(AnswerReader::default(), &answers, &[usize::MAX], false);
        prop_assert_eq!(whole, parse(AnswerReader::default(), &answers, &parts, false));
    }
}
