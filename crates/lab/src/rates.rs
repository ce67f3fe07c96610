//! Rates with a unit: under the name `rate`, and under those that end in it, `10k` is 10 000.

use std::collections::BTreeMap;

use report::record::Value;

/// A value under a name, as a number if it is a rate.
pub(crate) fn read(name: &str, value: &mut Value) -> bool {
    let is_rate = name == "rate" || name.ends_with("-rate") || name.ends_with("_rate");
    let read = match value {
        Value::Text(text) if is_rate => units::rate_rps(text).ok(),
        Value::Text(_) | Value::Number(_) => None,
    };
    if let Some(rate_rps) = read {
        *value = Value::from(rate_rps);
    }
    read.is_some()
}

pub(crate) fn read_all(table: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        read(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_and_other_texts_stay() {
        for (name, text, expected) in [
            ("rate", "10k", Value::from(10_000.0)),
            ("least-rate", "1.5M", Value::from(1_500_000.0)),
            (
                "rate",
                "as fast as it goes",
                Value::from("as fast as it goes"),
            ),
            ("step", "10k", Value::from("10k")),
            ("separate", "10k", Value::from("10k")),
        ] {
            let mut table = BTreeMap::from([(name.to_owned(), Value::from(text))]);
            read_all(&mut table);
            assert_eq!(table[name], expected, "{name}");
        }
    }
}
