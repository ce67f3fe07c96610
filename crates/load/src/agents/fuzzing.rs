//! Property checks of the parsers of frames and messages. The properties hold for any input bytes.
//! The fuzz target `agent_frames` runs the checks with generated inputs. A test runs them with the
//! committed corpus.

use super::frame::{self, HEAD_LEN, Parsed};
use super::message::Message;
use crate::limits::MESSAGE_LEN_MAX;

/// Maximum number of frames that are checked in one input. Further frames are ignored.
const FRAMES_MAX: usize = 64;

/// Parses the frames at the beginning of `input`, and the messages in these frames. Checks three
/// properties:
///
/// - The bytes after a frame do not change how the frame is parsed.
/// - If the last bytes of a frame are missing, the frame is reported as incomplete. Four different
///   prefixes of each frame are checked.
/// - Emitting the body of a parsed frame gives the bytes of that frame. Emitting a parsed message
///   and parsing the result gives an equal message.
///
/// # Panics
/// A property does not hold.
pub fn check_frames(mut input: &[u8]) {
    for _ in 0..FRAMES_MAX {
        let parsed = frame::parse(input, MESSAGE_LEN_MAX);
        let (body, len) = match parsed {
            Ok(Parsed::Frame { body, len }) => (body, len),
            Ok(Parsed::Incomplete { needed }) => {
                // `needed` is the length of the whole frame, as far as it is known.
                assert!(input.len() < needed && needed <= HEAD_LEN + MESSAGE_LEN_MAX);
                return;
            }
            Err(_) => return,
        };
        assert_eq!(frame::parse(&input[..len], MESSAGE_LEN_MAX), parsed);
        for prefix_len in [0, HEAD_LEN - 1, len / 2, len - 1] {
            let parsed_prefix = frame::parse(&input[..prefix_len.min(len - 1)], MESSAGE_LEN_MAX);
            assert!(
                matches!(parsed_prefix, Ok(Parsed::Incomplete { .. })),
                "{parsed_prefix:?}"
            );
        }
        let mut emitted = Vec::new();
        assert!(frame::emit(body, &mut emitted).is_ok());
        assert_eq!(emitted, input[..len]);
        if let Ok(message) = Message::parse(body) {
            check_message(&message);
        }
        input = &input[len..];
    }
}

/// Checks that `message` is the same after it is emitted and parsed again.
fn check_message(message: &Message) {
    let mut out = Vec::new();
    // A message is JSON text. The emitted text can be longer than the text that was parsed, because
    // the emitter may escape characters and write numbers with more digits. If the emitted text
    // exceeds the maximum length of a frame's body, `emit` fails. This is not a defect.
    if message.emit(&mut out).is_err() {
        return;
    }
    let Ok(Parsed::Frame { body, .. }) = frame::parse(&out, MESSAGE_LEN_MAX) else {
        panic!("{message:?} was emitted as bytes that are not a frame");
    };
    match Message::parse(body) {
        Ok(parsed) => assert_eq!(parsed, *message),
        Err(error) => panic!("{message:?} was emitted but cannot be parsed: {error}"),
    }
    if let Message::Second(second) = message {
        // The message of an ended second has its histograms as Base64 text, which
        // `Message::parse` does not decode. `window` decodes it. Any text must give a window or an
        // error, but not a panic.
        let open_loop = true;
        let _ = second.window(open_loop);
    }
}
