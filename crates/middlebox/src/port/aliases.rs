//! Which client has which alias: an address that stands for it at the memory node.
//!
//! There are few, and anything may send a datagram. So a client gets one only for a message about
//! connections. One that has sent and received nothing for [`ALIAS_IDLE_NS`] loses it to the next
//! client if all are given, and connects again when it needs the pool.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use crate::limits::{ALIAS_IDLE_NS, ALIASES_MAX};

/// The aliases that are given, by their numbers from 0.
#[derive(Debug, Default)]
pub(super) struct Aliases {
    all: Vec<Alias>,
    /// Numbers by the address of the client, and by the alias.
    by_client: HashMap<Ipv4Addr, usize>,
    by_ip: HashMap<Ipv4Addr, usize>,
}

#[derive(Debug)]
struct Alias {
    client: Ipv4Addr,
    ip: Ipv4Addr,
    used_ns: u64,
    /// The middlebox uses it for itself: its shared queue pairs have this address.
    is_kept: bool,
}

/// How a client can get an alias.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// One more can be made, and given to [`Aliases::add`].
    New,
    /// It has that of another client now.
    Replaced(usize),
    /// All are in use.
    None,
}

impl Aliases {
    /// The alias of a client.
    pub(super) fn of_client(&self, client: Ipv4Addr) -> Option<usize> {
        self.by_client.get(&client).copied()
    }

    /// The alias with an address.
    pub(super) fn of_ip(&self, ip: Ipv4Addr) -> Option<usize> {
        self.by_ip.get(&ip).copied()
    }

    pub(super) fn client(&self, number: usize) -> Ipv4Addr {
        self.all[number].client
    }

    pub(super) fn ip(&self, number: usize) -> Ipv4Addr {
        self.all[number].ip
    }

    /// A datagram has come or gone.
    pub(super) fn touch(&mut self, number: usize, now_ns: u64) {
        self.all[number].used_ns = now_ns;
    }

    /// The alias stays with its client for ever.
    pub(super) fn keep(&mut self, number: usize) {
        self.all[number].is_kept = true;
    }

    /// Finds an alias for a client that has none.
    pub(super) fn offer(&mut self, client: Ipv4Addr, now_ns: u64) -> Offer {
        if self.all.len() < ALIASES_MAX {
            return Offer::New;
        }
        let is_free =
            |alias: &Alias| !alias.is_kept && now_ns.saturating_sub(alias.used_ns) >= ALIAS_IDLE_NS;
        let free = self.all.iter_mut().enumerate();
        let free = free.filter(|(_, alias)| is_free(alias));
        let Some((number, alias)) = free.min_by_key(|(_, alias)| alias.used_ns) else {
            return Offer::None;
        };
        self.by_client.remove(&alias.client);
        alias.client = client;
        alias.used_ns = now_ns;
        self.by_client.insert(client, number);
        Offer::Replaced(number)
    }

    /// Gives a new alias to a client. Its number is one more than that of the one before.
    pub(super) fn add(&mut self, client: Ipv4Addr, ip: Ipv4Addr, now_ns: u64) -> usize {
        let number = self.all.len();
        self.by_client.insert(client, number);
        self.by_ip.insert(ip, number);
        self.all.push(Alias {
            client,
            ip,
            used_ns: now_ns,
            is_kept: false,
        });
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0000 + number as u32)
    }

    fn alias(number: usize) -> Ipv4Addr {
        Ipv4Addr::from(0x7f01_0000 + number as u32)
    }

    fn full() -> Aliases {
        let mut aliases = Aliases::default();
        for number in 0..ALIASES_MAX {
            assert_eq!(aliases.offer(client(number), 0), Offer::New);
            assert_eq!(aliases.add(client(number), alias(number), 0), number);
        }
        aliases
    }

    #[test]
    fn the_alias_that_was_not_used_for_longest_goes_to_the_next_client() {
        let mut aliases = full();
        aliases.keep(0);
        for number in 0..ALIASES_MAX {
            aliases.touch(number, number as u64);
        }
        aliases.touch(1, 5000);
        let next = client(ALIASES_MAX);
        assert_eq!(aliases.offer(next, ALIAS_IDLE_NS + 1), Offer::None);
        assert_eq!(aliases.of_client(next), None);
        assert_eq!(aliases.offer(next, ALIAS_IDLE_NS + 2), Offer::Replaced(2));
        assert_eq!(aliases.of_client(next), Some(2));
        assert_eq!(aliases.of_client(client(2)), None);
        assert_eq!(aliases.of_ip(alias(2)), Some(2));
        assert_eq!(aliases.client(2), next);
        // The one before comes back, and finds the next one.
        assert_eq!(
            aliases.offer(client(2), ALIAS_IDLE_NS + 3),
            Offer::Replaced(3)
        );
    }

    #[test]
    fn clients_come_and_go_without_end() {
        let mut aliases = full();
        for number in ALIASES_MAX..8 * ALIASES_MAX {
            let now_ns = number as u64 * ALIAS_IDLE_NS;
            let Offer::Replaced(taken) = aliases.offer(client(number), now_ns) else {
                panic!("client {number} has no alias");
            };
            assert_eq!(aliases.client(taken), client(number));
        }
        assert_eq!(aliases.all.len(), ALIASES_MAX);
        assert_eq!(aliases.by_client.len(), ALIASES_MAX);
    }
}
