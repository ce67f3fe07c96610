//! A thousand odd and malformed sequences of frames, sent to the server and to an installed
//! memcached. Their answers must be equal byte for byte, except for the CAS, and for the
//! differences of [`Difference`].

use curtail_tests::probe::{Comparison, Servers, answer, one_of};
use curtail_tests::process::server;
use protocol::SetMode;
use protocol::binary::reply::Reply;
use protocol::binary::{Command, Head, Header, Opcode, Parsed, REPLY_MAGIC, REQUEST_MAGIC, parse};
use protocol::limits::{BINARY_BODY_MAX, BINARY_HEADER_LEN};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SEQUENCES: u32 = 1000;
const SEED: u64 = 33;

/// Why answers differ, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// memcached takes the value of a `stat`, `touch` or `gat` as frames. Here it is invalid.
    ValueWithoutUse,
    /// memcached skips more than the body of an unknown command, and so loses frames.
    BodyOfUnknown,
    /// memcached answers an invalid header only after as many bytes as its extras and key have.
    InvalidHeaderIsIncomplete,
    /// memcached 1.6.18 has no largest length of a body.
    LongBody,
    /// memcached closes without the replies to frames that it received together with a wrong magic.
    WrongMagicBehindFrames,
    /// The input ends within a value, or within a body to be skipped. memcached keeps all replies
    /// until it has received that, and then sends none.
    EndWithinBody,
}

#[test]
fn odd_frames_are_answered_as_by_memcached() {
    let Some(servers) = Servers::start().unwrap() else {
        return;
    };
    let has_body_max = servers.version() != "1.6.18";
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut comparison = Comparison::default();
    for number in 0..SEQUENCES {
        let sequence = sequence(number, &mut rng);
        let (ours, theirs) = servers.answers(&sequence, comparable).unwrap();
        let shown = || sequence.escape_ascii().to_string();
        let difference = || difference(&sequence, has_body_max);
        comparison.count((&ours, &theirs), shown, difference);
    }
    comparison.assert_explained();
    assert!(comparison.equal > SEQUENCES / 10 * 8);
}

#[test]
fn flag_restricts_the_protocols() {
    let noop = noop(0);
    let reply = &[&[REPLY_MAGIC], &noop[1..]].concat()[..];
    let expected: [(&str, &[u8], &[u8]); 3] = [
        ("auto", b"MN\r\n", reply),
        // The opcode of a noop is a line feed.
        (
            "ascii",
            b"MN\r\n",
            b"CLIENT_ERROR bad command line format\r\n",
        ),
        ("binary", b"", reply),
    ];
    for (flag, to_text, to_frame) in expected {
        let server = server(&["-B", flag]);
        let answer = |bytes| answer(&server.address, bytes).unwrap();
        assert_eq!(answer(b"mn\r\n"), to_text, "{flag}");
        assert_eq!(answer(&noop), to_frame, "{flag}");
    }
}

/// Whether memcached has a command of this opcode (`protocol_binary.h`).
fn is_known(opcode: u8) -> bool {
    matches!(opcode, 0x00..=0x1a | 0x1c..=0x1e | 0x20..=0x24)
}

/// One to four frames, many of them odd, and then a `noop`.
fn sequence(number: u32, rng: &mut impl Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.random_range(1..=4) {
        let frame = match rng.random_bool(0.5) {
            true => frame(number, 0, rng),
            false => frame(number, 30, rng),
        };
        bytes.extend(frame);
    }
    bytes.extend(noop(u32::MAX));
    bytes
}

fn noop(opaque: u32) -> [u8; BINARY_HEADER_LEN] {
    let head = Head {
        opcode: Opcode::NOOP,
        opaque,
    };
    let header = Header {
        magic: REQUEST_MAGIC,
        head,
        ..Header::default()
    };
    header.to_bytes()
}

/// A frame, each of whose fields is odd with a probability of `odd` per cent.
fn frame(number: u32, odd: u32, rng: &mut impl Rng) -> Vec<u8> {
    let mut is_odd = || rng.random_range(0..100) < odd;
    let odds = [is_odd(), is_odd(), is_odd(), is_odd(), is_odd(), is_odd()];
    let known: Vec<u8> = (0..=u8::MAX).filter(|&opcode| is_known(opcode)).collect();
    let opcode = match odds[0] {
        true => rng.random(),
        false => one_of(&known, rng),
    };
    let (extras_len, has_key, has_value) = match Opcode(opcode).command().map(|(it, _)| it) {
        Some(Command::Set(SetMode::Append | SetMode::Prepend)) => (0, true, true),
        Some(Command::Set(_)) => (8, true, true),
        Some(Command::Arith(_)) => (20, true, false),
        Some(Command::Touch | Command::GetAndTouch { .. }) => (4, true, false),
        Some(Command::Get { .. } | Command::Delete | Command::Stat) => (0, true, false),
        Some(Command::SaslMessage) => (0, true, true),
        Some(Command::Flush) => (4, false, false),
        _ => (0, false, false),
    };
    let extras_len = match odds[1] {
        true => one_of(&[0, 4, 8, 20, 21, 24, 255], rng),
        false => extras_len,
    };
    let key_len = match odds[2] {
        true => one_of(&[0, 1, 249, 250, 251, 300], rng),
        false if has_key => 6,
        false => 0,
    };
    let value_len = match odds[3] {
        true => one_of(&[0, 1, 24, 100, 5000], rng),
        false if has_value => 3,
        false => 0,
    };
    let mut extras = vec![0; extras_len];
    for word in extras.chunks_mut(4) {
        // Not 1: memcached's clock has whole seconds, so a flush then may delete later items too.
        let values = [0, 0, 100, 1_000_000_000, 0x8000_0000, u32::MAX];
        let value: u32 = one_of(&values, rng);
        word.copy_from_slice(&value.to_be_bytes()[4 - word.len()..]);
    }
    let mut key = format!("{number:04}-{}", rng.random_range(0..3)).into_bytes();
    key.resize(key_len, b'k');
    let value = rng.random_range(0..1000_u32).to_string().into_bytes();
    let value: Vec<u8> = value.into_iter().cycle().take(value_len).collect();
    let body_len = (extras.len() + key.len() + value.len()) as u32;
    let header = Header {
        magic: if odds[4] && rng.random_bool(0.2) {
            0x81
        } else {
            REQUEST_MAGIC
        },
        head: Head {
            opcode: Opcode(opcode),
            opaque: rng.random(),
        },
        key_len: key_len as u16,
        extras_len: extras_len as u8,
        data_type: rng.random_range(0..2),
        status: rng.random_range(0..2),
        body_len: match odds[5] {
            true => one_of(
                &[
                    0,
                    body_len.saturating_sub(1),
                    body_len + 1,
                    body_len + 24,
                    2_000_000,
                    BINARY_BODY_MAX,
                    BINARY_BODY_MAX + 1,
                    i32::MAX as u32,
                    u32::MAX,
                ],
                rng,
            ),
            false => body_len,
        },
        cas: one_of(&[0, 0, 0, 1, u64::MAX], rng),
    };
    [header.to_bytes().to_vec(), extras, key, value].concat()
}

/// The replies, a line for each, without statistics, whose values differ, and with nothing of the
/// CAS but whether it is zero.
fn comparable(mut replies: &[u8]) -> String {
    let mut all = Vec::new();
    while let Ok(Some((mut reply, len))) = Reply::read(replies) {
        reply.header.cas = u64::from(reply.header.cas != 0);
        let is_statistic = reply.header.head.opcode == Opcode::STAT && !reply.key.is_empty();
        // The releases have the same length.
        let value = match reply.value {
            b"1.6.18" => b"1.6.45",
            value => value,
        };
        if !is_statistic {
            all.push(format!("{:?} {}", reply.header, value.escape_ascii()));
        }
        replies = &replies[len..];
    }
    // A sequence with another first byte is answered in text.
    all.push(replies.escape_ascii().to_string());
    all.join("\n")
}

/// The first frame of a sequence that is answered differently on purpose.
fn difference(mut input: &[u8], has_body_max: bool) -> Option<Difference> {
    loop {
        let header = Header::read(input.first_chunk::<BINARY_HEADER_LEN>()?);
        if header.body_len > BINARY_BODY_MAX && !has_body_max {
            return Some(Difference::LongBody);
        }
        let is_complete = input.len() >= header.value_at();
        let (len, skipped) = match parse(input) {
            Parsed::Incomplete => return None,
            Parsed::Fatal { status: None, .. } => {
                return Some(Difference::WrongMagicBehindFrames);
            }
            Parsed::Fatal { .. } if !is_complete => {
                return Some(Difference::InvalidHeaderIsIncomplete);
            }
            Parsed::Fatal { .. } => {
                let (command, _) = header.head.opcode.command()?;
                let has_other_use = matches!(
                    command,
                    Command::Stat | Command::Touch | Command::GetAndTouch { .. }
                );
                let has_value = header.value_len()? > 0;
                return (has_other_use && has_value).then_some(Difference::ValueWithoutUse);
            }
            Parsed::Rejected { .. } if header.value_at() > BINARY_HEADER_LEN => {
                // Without SASL, its commands (0x20 to 0x22) are unknown too.
                let opcode = header.head.opcode.0;
                let is_unknown = !is_known(opcode) || (0x20..=0x22).contains(&opcode);
                return is_unknown.then_some(Difference::BodyOfUnknown);
            }
            Parsed::Rejected { len, swallow, .. } => (len, swallow),
            Parsed::Request { len, .. } => (len, header.value_len()?.into()),
        };
        match input.get(len + usize::try_from(skipped).ok()?..) {
            Some(rest) => input = rest,
            None => return Some(Difference::EndWithinBody),
        }
    }
}
