//! The division of the statistics between `stats`, which has the names that memcached has, and
//! `stats curtail`, which has all others.

use crate::control::{ServerControl, StatWriter};
use crate::memcached_statistics::is_of_memcached;

/// Writes the statistics of one of the two commands, and leaves out the others.
pub(super) struct ChosenRows<'a> {
    /// `stats`, and not `stats curtail`.
    is_general: bool,
    control: &'a dyn ServerControl,
    out: &'a mut dyn StatWriter,
}

impl<'a> ChosenRows<'a> {
    pub(super) fn new(
        is_general: bool,
        control: &'a dyn ServerControl,
        out: &'a mut dyn StatWriter,
    ) -> Self {
        Self {
            is_general,
            control,
            out,
        }
    }

    fn is_chosen(&self, name: &[u8]) -> bool {
        let is_in_stats = is_of_memcached(name) && !self.control.is_optional(name);
        is_in_stats == self.is_general
    }
}

impl StatWriter for ChosenRows<'_> {
    fn number(&mut self, name: &[u8], value: u64) {
        if self.is_chosen(name) {
            self.out.number(name, value);
        }
    }

    fn text(&mut self, name: &[u8], value: &[u8]) {
        if self.is_chosen(name) {
            self.out.text(name, value);
        }
    }
}
