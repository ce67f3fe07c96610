//! Encoding of outcomes as replies of the toy protocol.

use service::Output;

use super::ToyEncoder;
use crate::encode::{Encode, EncodedItem, push_value};
use crate::outcome::{DeleteOutcome, FoundItem, Outcome, StoreOutcome};
use crate::prefixes::PrefixSums;
use crate::text::TextStats;

impl Encode for ToyEncoder {
    const VALUE_END: &'static [u8] = b"";

    const HAS_READ_OPTIONS: bool = false;

    type Stats<'o> = TextStats<'o>;

    fn item<I: EncodedItem>(
        &self,
        found: &FoundItem<'_, I>,
        out: &mut Output<I::Pin>,
    ) -> Option<()> {
        let header = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(format!("V{}\0", found.item.value_len()).as_bytes());
        };
        push_value(found.item, header, b"", out)
    }

    fn outcome(&self, _: &[u8], outcome: Outcome, out: &mut Vec<u8>) {
        out.extend_from_slice(match outcome {
            Outcome::Read { found: true } => b"",
            Outcome::Store(StoreOutcome::Stored { .. }) | Outcome::Delete(DeleteOutcome::Done) => {
                b"O\0"
            }
            Outcome::Read { found: false } | Outcome::Delete(DeleteOutcome::NotFound) => b"N\0",
            _ => b"E\0",
        });
    }

    /// Not called, because no command of the toy protocol replies with statistics.
    fn stats<'o>(&self, out: &'o mut Vec<u8>) -> TextStats<'o> {
        TextStats(out)
    }

    fn prefixes(&self, _: &PrefixSums, _: &mut Vec<u8>) {}
}
