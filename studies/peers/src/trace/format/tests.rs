use super::*;
use crate::trace::Operation;

fn keys(format: Format, content: &[u8]) -> Vec<u32> {
    let trace = format.parse(content).unwrap();
    trace.requests.iter().map(|request| request.key).collect()
}

fn error(format: Format, content: &[u8]) -> String {
    format.parse(content).unwrap_err().to_string()
}

#[test]
fn integers_of_each_width_identify_keys() {
    let names: [u64; 4] = [0x0102, 7, 0x0102, 0x0201];
    let expected = [0, 1, 0, 2];
    let content = |len: usize| -> Vec<u8> {
        names
            .iter()
            .flat_map(|name| name.to_le_bytes()[..len].to_vec())
            .collect()
    };
    assert_eq!(keys(Format::Integers2, &content(2)), expected);
    assert_eq!(keys(Format::Integers4, &content(4)), expected);
    assert_eq!(keys(Format::Integers8, &content(8)), expected);
    let far: Vec<u8> = [1_u64 << 40, 0]
        .iter()
        .flat_map(|name| name.to_le_bytes())
        .collect();
    assert_eq!(
        keys(Format::Integers8, &far),
        [0, 1],
        "all eight bytes count"
    );
    assert!(error(Format::Integers4, &content(2)[..6]).contains("6 bytes"));
}

#[test]
fn a_line_of_text_is_a_key() {
    assert_eq!(keys(Format::Text, b"a b\r\nc\n\na b\nd"), [0, 1, 0, 2]);
}

#[test]
fn stars_in_a_lirs_trace_are_no_keys() {
    assert_eq!(keys(Format::Lirs, b"10\n*\n11\n10\n"), [0, 1, 0]);
    assert!(error(Format::Lirs, b"10\nx\n").contains("line 2"));
}

#[test]
fn loads_and_stores_of_an_address_are_one_key() {
    let content = b"s 0x1fffff50 1\nl 0x1fffff58 1\nl 0x1fffff50 6\n";
    assert_eq!(keys(Format::Addresses, content), [0, 1, 0]);
    assert!(error(Format::Addresses, b"m 0x1 1").contains("line 1"));
    assert!(error(Format::Addresses, b"l 12 1").contains("line 1"));
}

#[test]
fn sized_text_has_sizes() {
    let trace = Format::SizedText
        .parse(b"1 0 68\n2 1 7454\n3 0 68\n")
        .unwrap();
    let sizes: Vec<u32> = trace.requests.iter().map(|request| request.bytes).collect();
    assert_eq!((trace.keys, sizes), (2, vec![68, 7454, 68]));
    assert!(error(Format::SizedText, b"1 0").contains("line 1"));
}

#[test]
fn oracle_general_has_times_and_sizes() {
    let record = |time: u32, key: u64, size: u32| -> Vec<u8> {
        let next_access = (-1_i64).to_le_bytes();
        [
            &time.to_le_bytes()[..],
            &key.to_le_bytes(),
            &size.to_le_bytes(),
            &next_access,
        ]
        .concat()
    };
    let content = [
        record(50, 1 << 40, 512),
        record(50, 0, 4096),
        record(53, 1 << 40, 512),
    ];
    let trace = Format::OracleGeneral.parse(&content.concat()).unwrap();
    let known: Vec<(u32, u32, u32)> = trace
        .requests
        .iter()
        .map(|request| (request.second, request.key, request.bytes))
        .collect();
    assert_eq!(known, [(0, 0, 512), (0, 1, 4096), (3, 0, 512)]);
    assert!(error(Format::OracleGeneral, &[0; 25]).contains("25 bytes"));
}

#[test]
fn lines_of_twitter_have_operations_sizes_and_expiries() {
    let content = b"7,key,a,5,100,3,set,60\n7,b,1,0,3,get,0\n9,key,a,5,100,3,get,0\n\
        9,b,1,20,3,add,0\n10,b,1,0,3,delete,0\n";
    let trace = Format::Twitter.parse(content).unwrap();
    let request = |key, operation, bytes, ttl_s, second| Request {
        key,
        operation,
        bytes,
        ttl_s,
        second,
    };
    assert_eq!(
        trace.requests,
        [
            request(0, Operation::Write, 105, 60, 0),
            // The size of a read that missed is that of the write after it.
            request(1, Operation::Read, 21, 0, 0),
            request(0, Operation::Read, 105, 60, 2),
            request(1, Operation::Write, 21, 0, 2),
            request(1, Operation::Delete, 21, 0, 3),
        ]
    );
    assert!(error(Format::Twitter, b"7,a,5,100,3,hit,0").contains("line 1"));
}
