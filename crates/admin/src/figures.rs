//! The figures of a page, collected from the server and looked up by name.

use std::collections::BTreeMap;

use session::StatWriter;

use crate::limits::{FIGURES_MAX, NAME_LEN_MAX, TEXT_LEN_MAX};

/// The value of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
}

/// Figures by name. A name occurs once; its first value is kept.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<String, Value>);

impl Figures {
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// A figure that is a number.
    pub(crate) fn number_of(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// All figures in order of name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    fn insert(&mut self, name: &[u8], value: impl FnOnce() -> Value) {
        if name.len() > NAME_LEN_MAX || self.0.len() >= FIGURES_MAX {
            return;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.0.entry(name).or_insert_with(value);
    }
}

impl StatWriter for Figures {
    fn number(&mut self, name: &[u8], value: u64) {
        self.insert(name, || Value::Number(value));
    }

    fn text(&mut self, name: &[u8], value: &[u8]) {
        let value = &value[..value.len().min(TEXT_LEN_MAX)];
        self.insert(name, || {
            Value::Text(String::from_utf8_lossy(value).into_owned())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_bounded_and_unique() {
        let mut figures = Figures::default();
        figures.number(b"a", 1);
        figures.number(b"a", 2);
        figures.text(b"t", &[b'x'; TEXT_LEN_MAX + 1]);
        figures.text(b"\xff", b"\xfe");
        figures.number(&[b'n'; NAME_LEN_MAX + 1], 3);
        let names: Vec<&str> = figures.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "t", "\u{fffd}"]);
        assert_eq!(figures.number_of("a"), Some(1));
        assert_eq!(
            figures.get("t"),
            Some(&Value::Text("x".repeat(TEXT_LEN_MAX)))
        );
        assert_eq!(figures.number_of("t"), None);
        for number in 0..2 * FIGURES_MAX {
            figures.number(format!("n{number}").as_bytes(), 0);
        }
        assert_eq!(figures.iter().count(), FIGURES_MAX);
    }
}
