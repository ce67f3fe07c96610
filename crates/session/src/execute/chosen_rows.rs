//! The division of the server's statistics between two commands: `stats` shows those whose names
//! memcached has, and `stats curtail` shows all others.

use crate::control::{ServerControl, StatWriter};
use crate::memcached_statistics::is_of_memcached;

/// Writes the statistics that one of the two commands shows, and leaves out those of the other
/// command.
pub(super) struct ChosenRows<'a> {
    /// Whether the command is `stats`. If false, it is `stats curtail`.
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
        let is_in_stats = is_of_memcached(name) && !self.control.is_turned_off(name);
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
