//! The settings of a model: values of factors, then those of `[settings]`, then defaults.

use report::record::{Factors, Value};

use crate::rates;

/// The value of a setting that is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// A number.
    Number(f64),
    /// A name.
    Text(&'static str),
}

/// The settings of a trial.
#[derive(Debug)]
pub struct Settings<'a> {
    /// The values of the factors.
    pub factors: &'a Factors,
    /// The values of `[settings]`.
    pub own: &'a Factors,
    /// The settings that the model has.
    pub defaults: &'static [(&'static str, Default)],
}

impl Settings<'_> {
    fn given(&self, name: &str) -> Option<Value> {
        let given = self.factors.get(name).or_else(|| self.own.get(name));
        let mut given = given.cloned();
        given.iter_mut().for_each(|it| _ = rates::read(name, it));
        given
    }

    fn default(&self, name: &str) -> Option<Default> {
        self.defaults
            .iter()
            .find(|(it, _)| *it == name)
            .map(|it| it.1)
    }

    /// A number of at least 0.
    pub fn number(&self, name: &str) -> Result<f64, String> {
        match (self.given(name), self.default(name)) {
            (Some(Value::Number(number)), _) if number >= 0.0 => Ok(number),
            (Some(other), _) => Err(format!("`{name}` is {other}, not a number of at least 0")),
            (None, Some(Default::Number(number))) => Ok(number),
            (None, _) => Err(format!("`{name}` is missing")),
        }
    }

    /// A number above 0, unless the default is 0 and nothing is given.
    pub fn positive(&self, name: &str) -> Result<f64, String> {
        match self.given(name) {
            Some(Value::Number(number)) if number > 0.0 => Ok(number),
            Some(other) => Err(format!("`{name}` is {other}, not a number above 0")),
            None => self.number(name),
        }
    }

    /// A whole number of at least 0.
    pub fn whole(&self, name: &str) -> Result<u64, String> {
        match self.number(name)? {
            number if number.fract() == 0.0 && number <= 1e12 => Ok(number as u64),
            other => Err(format!("`{name}` is {other}, not a whole number")),
        }
    }

    /// A whole number within these bounds.
    pub fn within(&self, name: &str, least: u64, most: u64) -> Result<u64, String> {
        match self.whole(name)? {
            whole if (least..=most).contains(&whole) => Ok(whole),
            other => Err(format!("`{name}` is {other}, not {least} to {most}")),
        }
    }

    /// A whole number of at least 0, of at most 32 bits.
    pub fn count(&self, name: &str) -> Result<u32, String> {
        let whole = self.whole(name)?;
        u32::try_from(whole).map_err(|_| format!("`{name}` is {whole}, which is too many"))
    }

    /// A text.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        match (self.given(name), self.default(name)) {
            (Some(value), _) => value.to_string(),
            (None, Some(Default::Text(text))) => text.to_owned(),
            (None, _) => String::new(),
        }
    }

    /// One of several values, by its name.
    pub fn one_of<T: Copy>(&self, name: &str, all: &[(&str, T)]) -> Result<T, String> {
        let text = self.text(name);
        let found = all.iter().find(|(it, _)| *it == text);
        found.map(|it| it.1).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(it, _)| *it).collect();
            format!("`{name}` is `{text}`, not one of {}", names.join(", "))
        })
    }

    /// Checks that every factor and setting is one of the model's.
    pub fn check_names(&self) -> Result<(), String> {
        let known = |name: &&String| self.defaults.iter().any(|(it, _)| it == name);
        let mut names = self.factors.keys().chain(self.own.keys());
        match names.find(|name| !known(name)) {
            None => Ok(()),
            Some(unknown) => {
                let names: Vec<&str> = self.defaults.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "`{unknown}` is no setting of the model; known are {}",
                    names.join(", ")
                ))
            }
        }
    }
}
