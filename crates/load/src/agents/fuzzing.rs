//! Checks of properties of frames and messages that hold for any input bytes. The fuzz target
//! `agent_frames` calls them with generated inputs. A test calls them with the committed corpus.

use super::frame::{self, HEAD_LEN, Parsed};
use super::message::Message;
use crate::limits::FRAME_LEN_MAX;

/// The number of frames that are checked in one input, at most.
const FRAMES_MAX: usize = 64;

/// Parses the frames in arbitrary bytes, and the messages in these frames. Checks three properties:
///
/// - The bytes after a frame do not change how the frame is parsed.
/// - An incomplete frame is not parsed as a frame.
/// - A frame or message that was parsed is the same after it is emitted and parsed again.
///
/// # Panics
/// One of these properties does not hold.
pub fn check_frames(mut input: &[u8]) {
    for _ in 0..FRAMES_MAX {
        let parsed = frame::parse(input, FRAME_LEN_MAX);
        let (body, len) = match parsed {
            Ok(Parsed::Frame { body, len }) => (body, len),
            Ok(Parsed::Incomplete { needed }) => {
                assert!(input.len() < needed && needed <= HEAD_LEN + FRAME_LEN_MAX);
                return;
            }
            Err(_) => return,
        };
        assert_eq!(frame::parse(&input[..len], FRAME_LEN_MAX), parsed);
        for prefix_len in [0, HEAD_LEN - 1, len / 2, len - 1] {
            let early = frame::parse(&input[..prefix_len.min(len - 1)], FRAME_LEN_MAX);
            assert!(matches!(early, Ok(Parsed::Incomplete { .. })), "{early:?}");
        }
        let mut again = Vec::new();
        assert!(frame::emit(body, &mut again).is_ok());
        assert_eq!(again, input[..len]);
        if let Ok(message) = Message::parse(body) {
            check_message(&message);
        }
        input = &input[len..];
    }
}

fn check_message(message: &Message) {
    let mut out = Vec::new();
    // The emitted text can be longer than the parsed text, because characters may be escaped and
    // numbers may have more digits. It may then exceed the maximum length of a frame.
    if message.emit(&mut out).is_err() {
        return;
    }
    let Ok(Parsed::Frame { body, .. }) = frame::parse(&out, FRAME_LEN_MAX) else {
        panic!("{message:?} was emitted as bytes that are not a frame");
    };
    match Message::parse(body) {
        Ok(again) => assert_eq!(again, *message),
        Err(error) => panic!("{message:?} was emitted but cannot be parsed: {error}"),
    }
    if let Message::Second(second) = message {
        // Histograms are only text in the message. Decoding them must end in a value or an error,
        // not in a panic.
        let _ = second.window(true);
    }
}
