//! The checks of the settings of carriers and protocols: which settings can be combined, and the
//! bounds of each.

use std::net::SocketAddr;

use workload::{Distribution, Op};

use super::{CarrierKind, Config, ConfigError, Protocol, Target, within};
use crate::limits::{
    HTTP_TIMEOUT_NS, REQUESTS_PER_CONNECTION_MAX, SOURCES_MAX, TEXTILE_TIMEOUT_NS,
    TEXTILE_UDP_PORT_OFFSET, TEXTILE_VALUE_LEN_MAX, TIMEOUT_NS, UDP_VALUE_LEN_MAX,
};

impl Protocol {
    /// Returns the carrier that the protocol prescribes. None: any carrier except
    /// [`CarrierKind::PerOperation`] can be chosen.
    #[must_use]
    pub const fn own_carrier(self) -> Option<CarrierKind> {
        match self {
            Self::Text | Self::Meta | Self::Binary => None,
            Self::Textile => Some(CarrierKind::PerOperation),
            Self::Http => Some(CarrierKind::Stream),
        }
    }

    /// Returns the default of [`Config::timeout_ns`].
    #[must_use]
    pub const fn default_timeout_ns(self) -> u64 {
        match self {
            Self::Text | Self::Meta | Self::Binary => 1_000_000_000,
            Self::Textile => TEXTILE_TIMEOUT_NS,
            Self::Http => HTTP_TIMEOUT_NS,
        }
    }

    /// Whether the protocol has the operation `op`.
    pub(crate) const fn has(self, op: Op) -> bool {
        match self {
            Self::Text | Self::Meta | Self::Binary => !matches!(op, Op::Head),
            Self::Textile => matches!(op, Op::Get | Op::Set | Op::Delete),
            Self::Http => matches!(op, Op::Get | Op::Head),
        }
    }
}

impl Config {
    /// Checks the carrier, the protocol and the settings that depend on them.
    pub(super) fn validate_carrier(&self) -> Result<(), ConfigError> {
        self.validate_protocol()?;
        self.validate_sources()?;
        if self.lengths.is_some() && self.script.is_none() {
            return invalid("lengths", "there is no script; give one with --script");
        }
        if let Some(count) = self.requests_per_connection {
            let most = u64::from(REQUESTS_PER_CONNECTION_MAX);
            within("requests per connection", count.into(), 1, most)?;
            if self.carrier != CarrierKind::Stream {
                let fault = "only carrier stream has more than one; leave out \
                             --requests-per-connection";
                return invalid("requests per connection", fault);
            }
        }
        // The settings below do not matter for connections that are never opened again.
        if self.carrier == CarrierKind::Stream && !self.renews_connections() {
            return Ok(());
        }
        let (least, most) = (*TIMEOUT_NS.start(), *TIMEOUT_NS.end());
        within("time-out in ns", self.timeout_ns, least, most)?;
        if self.saturating_connections > 0 {
            return invalid(
                "saturating connections",
                "they are never opened again; give carrier stream without \
                 --requests-per-connection and without protocol http, or 0 saturating connections",
            );
        }
        match self.carrier {
            CarrierKind::Stream if self.depth > 1 => invalid(
                "depth",
                "a connection that is opened again carries one request at a time; give depth 1, \
                 and more connections",
            ),
            CarrierKind::Stream => Ok(()),
            CarrierKind::OneShot if self.depth > 1 => invalid(
                "depth",
                "carrier one-shot opens a connection for each request; give depth 1, and more \
                 connections",
            ),
            CarrierKind::OneShot => Ok(()),
            CarrierKind::Udp if self.has_unix_target() => {
                invalid("target", "a Unix socket has no UDP; give HOST:PORT")
            }
            CarrierKind::Udp => within(
                "longest value",
                self.value_len_max.into(),
                0,
                UDP_VALUE_LEN_MAX.into(),
            ),
            CarrierKind::PerOperation => self.validate_per_operation(),
        }
    }

    /// Checks that the protocol can be used with the carrier, and the settings that only some
    /// protocols have.
    fn validate_protocol(&self) -> Result<(), ConfigError> {
        let is_per_operation = self.carrier == CarrierKind::PerOperation;
        match self.protocol {
            Protocol::Textile if !is_per_operation => invalid(
                "carrier",
                "protocol textile decides it: gets over UDP, sets and deletes over TCP; leave it out",
            ),
            Protocol::Http if self.carrier != CarrierKind::Stream => invalid(
                "carrier",
                "protocol http has connections only; leave it out, and for a connection for each \
                 request give --requests-per-connection 1",
            ),
            Protocol::Text | Protocol::Meta | Protocol::Binary if is_per_operation => invalid(
                "carrier",
                "only protocol textile has a carrier for each operation; give stream, udp or one-shot",
            ),
            _ if self.udp_port.is_some() && !is_per_operation => invalid(
                "UDP port",
                "only protocol textile has one besides the TCP port; leave out --udp-port",
            ),
            Protocol::Http => self.validate_http(),
            _ if self.files.is_some() || self.verify => invalid(
                "files",
                "only protocol http requests them; give --protocol http, or leave out --files and \
                 --verify",
            ),
            _ => self.validate_operations(),
        }
    }

    /// Checks the settings of [`Protocol::Http`].
    fn validate_http(&self) -> Result<(), ConfigError> {
        if self.files.is_none() {
            let fault = "protocol http requests those that `curtail files make` has made; give \
                         --files, such as 3GB or directories=600";
            return invalid("files", fault);
        }
        if self.script.is_some() {
            return invalid("script", "protocol http has none; leave out --script");
        }
        if self.ttl != Distribution::Fixed(0.0) {
            return invalid("TTL", "protocol http has none; leave out --ttl");
        }
        if self.watch_bursts {
            let fault = "a web server has no `stats`; leave out --watch-bursts";
            return invalid("watch bursts", fault);
        }
        self.validate_operations()
    }

    /// Checks that the protocol has the operations of the load. The reader of a script checks the
    /// operations of the script.
    fn validate_operations(&self) -> Result<(), ConfigError> {
        if self.script.is_some() {
            return Ok(());
        }
        let Some(op) = self.mix().operations().find(|&op| !self.protocol.has(op)) else {
            return Ok(());
        };
        let (name, operations) = match self.protocol {
            Protocol::Http => ("http", "get and head"),
            Protocol::Textile => ("textile", "get, set and delete"),
            Protocol::Text | Protocol::Meta | Protocol::Binary => {
                ("of caches", "another operation")
            }
        };
        let fault = format!("protocol {name} has no {op}; give {operations}");
        Err(ConfigError::new("mix", fault))
    }

    /// Whether, with [`CarrierKind::Stream`], the generator replaces a connection that has ended by
    /// a new one.
    pub(crate) fn renews_connections(&self) -> bool {
        self.protocol == Protocol::Http || self.requests_per_connection.is_some()
    }

    /// Checks the local addresses: their number, the carrier, and that targets have the same
    /// version of IP.
    fn validate_sources(&self) -> Result<(), ConfigError> {
        within("sources", self.sources.len() as u64, 0, SOURCES_MAX as u64)?;
        if self.sources.is_empty() {
            return Ok(());
        }
        let is_persistent = self.carrier == CarrierKind::Stream && !self.renews_connections();
        if is_persistent || self.carrier == CarrierKind::Udp {
            let fault = "they are for sockets that are opened often; give --carrier one-shot, \
                         --requests-per-connection, --protocol textile or http, or leave out --source";
            return invalid("sources", fault);
        }
        for target in &self.targets {
            let Target::Tcp(address) = target else {
                return invalid(
                    "sources",
                    "a Unix socket has no local address; give HOST:PORT",
                );
            };
            let is_v6 = address.is_ipv6();
            if let Some(source) = self.sources.iter().find(|it| it.is_ipv6() != is_v6) {
                let fault = format!("{source} and {target} are not of the same version of IP");
                return Err(ConfigError::new("sources", fault));
            }
        }
        Ok(())
    }

    /// Checks the settings of [`Protocol::Textile`], whose requests each have their own socket.
    fn validate_per_operation(&self) -> Result<(), ConfigError> {
        if self.depth > 1 {
            let fault = "protocol textile opens a socket for each request; give depth 1, and more \
                         connections";
            return invalid("depth", fault);
        }
        if self.has_unix_target() {
            let fault = "protocol textile needs TCP and UDP; give HOST:PORT";
            return invalid("target", fault);
        }
        for target in &self.targets {
            if self.udp_address(target).is_none() {
                let fault = format!(
                    "the TCP port of {target} + {TEXTILE_UDP_PORT_OFFSET} is above 65535; give \
                     --udp-port"
                );
                return Err(ConfigError::new("UDP port", fault));
            }
        }
        within(
            "longest value",
            self.value_len_max.into(),
            0,
            TEXTILE_VALUE_LEN_MAX.into(),
        )?;
        // The reader of a script checks the script's TTLs.
        if self.script.is_some() {
            return Ok(());
        }
        if self.ttl != Distribution::Fixed(0.0) {
            return invalid("TTL", "protocol textile has none; leave out --ttl");
        }
        Ok(())
    }

    fn has_unix_target(&self) -> bool {
        self.targets.iter().any(|it| matches!(it, Target::Unix(_)))
    }

    /// Returns the UDP address of a target. None: the target is a Unix socket, or the UDP port
    /// would be above 65535.
    pub(crate) fn udp_address(&self, target: &Target) -> Option<SocketAddr> {
        let Target::Tcp(address) = target else {
            return None;
        };
        let default_port = || address.port().checked_add(TEXTILE_UDP_PORT_OFFSET);
        let port = self.udp_port.or_else(default_port)?;
        Some(SocketAddr::new(address.ip(), port))
    }
}

fn invalid(setting: &'static str, fault: &str) -> Result<(), ConfigError> {
    Err(ConfigError::new(setting, fault.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Valid settings for protocol textile.
    fn textile() -> Config {
        let mut config = Config::new("127.0.0.1:2001".parse().unwrap());
        (config.protocol, config.carrier) = (Protocol::Textile, CarrierKind::PerOperation);
        config.timeout_ns = config.protocol.default_timeout_ns();
        config
    }

    #[test]
    fn udp_port_is_1000_above_the_tcp_port_unless_it_is_given() {
        let mut config = textile();
        config.validate().unwrap();
        let address = |config: &Config| config.udp_address(&config.targets[0]).unwrap();
        assert_eq!(address(&config), "127.0.0.1:3001".parse().unwrap());
        config.udp_port = Some(7);
        assert_eq!(address(&config), "127.0.0.1:7".parse().unwrap());
    }

    #[test]
    fn invalid_settings_of_a_carrier_or_protocol_are_errors_that_name_the_setting() {
        type Change = fn(&mut Config);
        let cases: [(Change, &str); 14] = [
            (
                |c| c.carrier = CarrierKind::OneShot,
                "carrier: protocol textile decides it: gets over UDP, sets and deletes over TCP; \
                 leave it out",
            ),
            (
                |c| c.protocol = Protocol::Text,
                "carrier: only protocol textile has a carrier for each operation; give stream, udp \
                 or one-shot",
            ),
            (
                |c| {
                    (c.protocol, c.carrier) = (Protocol::Meta, CarrierKind::Stream);
                    c.udp_port = Some(1);
                },
                "UDP port: only protocol textile has one besides the TCP port; leave out --udp-port",
            ),
            (
                |c| c.depth = 2,
                "depth: protocol textile opens a socket for each request; give depth 1, and more \
                 connections",
            ),
            (
                |c| c.saturating_connections = 1,
                "saturating connections: they are never opened again; give carrier stream without \
                 --requests-per-connection and without protocol http, or 0 saturating connections",
            ),
            (
                |c| c.targets = vec!["/run/cache.sock".parse().unwrap()],
                "target: protocol textile needs TCP and UDP; give HOST:PORT",
            ),
            (
                |c| c.targets = vec!["127.0.0.1:65000".parse().unwrap()],
                "UDP port: the TCP port of 127.0.0.1:65000 + 1000 is above 65535; give --udp-port",
            ),
            (
                |c| c.value_len_max = 1_000_001,
                "longest value: 1000001 is out of bounds; give 0 to 1000000",
            ),
            (
                |c| c.mix = Some("get=1,incr=1".parse().unwrap()),
                "mix: protocol textile has no incr; give get, set and delete",
            ),
            (
                |c| c.ttl = Distribution::Fixed(60.0),
                "TTL: protocol textile has none; leave out --ttl",
            ),
            (
                |c| c.sources = vec!["::1".parse().unwrap()],
                "sources: ::1 and 127.0.0.1:2001 are not of the same version of IP",
            ),
            (
                |c| c.sources = vec!["127.0.0.1".parse().unwrap(); 257],
                "sources: 257 is out of bounds; give 0 to 256",
            ),
            (
                |c| {
                    (c.protocol, c.carrier) = (Protocol::Text, CarrierKind::Stream);
                    c.sources = vec!["127.0.0.1".parse().unwrap()];
                },
                "sources: they are for sockets that are opened often; give --carrier one-shot, \
                 --requests-per-connection, --protocol textile or http, or leave out --source",
            ),
            (
                |c| c.lengths = Some(super::super::Lengths::Get),
                "lengths: there is no script; give one with --script",
            ),
        ];
        for (change, message) in cases {
            let mut config = textile();
            change(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), message);
        }
    }
}
