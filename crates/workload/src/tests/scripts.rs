//! The script parser takes any bytes, and reads back what it means.

use proptest::prelude::*;

use crate::limits::{KEY_LEN_MAX, MULTIGET_KEYS_MAX, TTL_S_MAX};
use crate::{Op, ScriptLine};

proptest! {
    #[test]
    fn any_bytes_are_an_operation_within_bounds_or_a_fault(
        line in proptest::collection::vec(any::<u8>(), 0..400)
    ) {
        if let Ok(Some(parsed)) = ScriptLine::parse(&line) {
            prop_assert_eq!(parsed.each_key().count(), usize::from(parsed.key_count));
            prop_assert!((1..=MULTIGET_KEYS_MAX).contains(&parsed.key_count));
            prop_assert!(parsed.each_key().all(|key| (1..=KEY_LEN_MAX).contains(&key.len())));
            prop_assert!(parsed.ttl_s <= TTL_S_MAX);
        }
    }

    #[test]
    fn what_is_written_is_read(
        at_ms in proptest::option::of(0_u64..1_000_000_000),
        name in prop::sample::select(vec!["set", "add", "replace", "cas", "read-through"]),
        key in "[!-~]{1,250}",
        value_len in any::<u32>(),
        ttl_s in 0..=TTL_S_MAX,
    ) {
        let time = at_ms.map(|ms| format!("{}.{:03} ", ms / 1000, ms % 1000));
        let line = format!("{}{name} {key} {value_len} {ttl_s}", time.unwrap_or_default());
        let parsed = ScriptLine::parse(line.as_bytes()).unwrap().unwrap();
        prop_assert_eq!(parsed.at_ns, at_ms.map(|ms| ms * 1_000_000));
        let shown = if parsed.op == Op::Gets { "cas" } else { parsed.op.name() };
        prop_assert_eq!(shown, name);
        prop_assert_eq!(parsed.keys, key.as_bytes());
        prop_assert_eq!((parsed.value_len, parsed.ttl_s), (value_len, ttl_s));
    }
}
