use service::Session as _;

use super::*;
use crate::operation::ReadOptions;
use crate::protocols::Encoder;
use crate::text::TextEncoder;

#[test]
fn result_bytes_are_the_values_that_wait_to_be_written() {
    let mut session = PoolSession::default();
    session.replies.extend((0..2).map(|_| reading()));
    assert_eq!(session.result_bytes(), 0);
    session.complete(1, found(100_000));
    assert_eq!(session.result_bytes(), 100_000);
    session.complete(0, Err(Abandoned));
    assert_eq!(session.result_bytes(), 100_000);
}

#[test]
fn values_being_read_are_assumed_to_be_as_long_as_earlier_ones() {
    let mut session = PoolSession::default();
    session.replies.extend((0..16).map(|_| reading()));
    assert_eq!(session.expected_len(), 0, "nothing is known yet");
    session.complete(0, found(1000));
    session.complete(1, found(10));
    // The shorter result reduces the assumed length by an eighth of 1000.
    assert_eq!(session.expected_len(), 1010 + 14 * 875);
    for number in 2..16 {
        session.complete(number, found(10));
    }
    assert_eq!(session.expected_len(), 1000 + 15 * 10);
}

/// A reply that waits for the read of a key.
fn reading() -> Reply {
    Reply {
        encoder: Encoder::Text(TextEncoder::default()).to_owned(),
        key: Box::default(),
        command: Command::Read(ReadOptions::plain(None)),
        vivify: None,
        progress: ReplyProgress::Waiting,
    }
}

/// The result of a read that has found a value of `len` bytes.
fn found(len: usize) -> Result<Completed, Abandoned> {
    let content = pool::NewItem {
        value: vec![0; len],
        ..pool::NewItem::default()
    };
    let item = pool::Item { content, unique: 1 };
    Ok(Some(Ok(pool::Outcome::Found(item))))
}
