//! Properties of frames and messages that hold for any input bytes. The fuzz target checks them,
//! and a test checks them on the committed corpus.

use super::frame::{self, HEAD_LEN, Parsed};
use super::message::Message;
use crate::limits::FRAME_LEN_MAX;

/// Maximum number of frames of one input that are checked.
const FRAMES_MAX: usize = 64;

/// Checks frames from arbitrary bytes, and the messages in them: the rest of the input does not
/// change the first frame, no part of a frame is a frame, and what is parsed survives being emitted
/// and parsed again.
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
        for part in [0, HEAD_LEN - 1, len / 2, len - 1] {
            let early = frame::parse(&input[..part.min(len - 1)], FRAME_LEN_MAX);
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
    // The text of a message can be longer than it was: an escape, a digit more of a number.
    if message.emit(&mut out).is_err() {
        return;
    }
    let Ok(Parsed::Frame { body, .. }) = frame::parse(&out, FRAME_LEN_MAX) else {
        panic!("{message:?} is emitted as no frame");
    };
    match Message::parse(body) {
        Ok(again) => assert_eq!(again, *message),
        Err(error) => panic!("{message:?} is not read again: {error}"),
    }
    if let Message::Second(second) = message {
        // Histograms are text to the message; reading them must end in a value or an error.
        let _ = second.window(true);
    }
}
