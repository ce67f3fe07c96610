//! `--pool`: where a pool of memory is, and how it is used.

use std::net::Ipv4Addr;

use server::PoolConfig;

use super::Flags;

/// How long an operation may wait to begin by default, and how long it may take then, in
/// nanoseconds.
const TIMEOUT_NS: u64 = 1_000_000_000;

/// The addresses of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolAddresses {
    metadata: Ipv4Addr,
    node: Option<Ipv4Addr>,
}

/// The address of the metadata service, and optionally that of the memory node.
pub(super) fn addresses(text: &str) -> Result<PoolAddresses, String> {
    let (metadata, node) = match text.split_once(',') {
        Some((metadata, node)) => (metadata, Some(node)),
        None => (text, None),
    };
    let parse = |ip: &str| {
        let parsed = ip.parse::<Ipv4Addr>();
        parsed.map_err(|_| {
            "IPv4 addresses without ports are needed, such as 127.0.0.3 or 127.0.0.3,127.0.0.2"
                .to_owned()
        })
    };
    Ok(PoolAddresses {
        metadata: parse(metadata)?,
        node: node.map(parse).transpose()?,
    })
}

/// A time from a millisecond to an hour, in nanoseconds.
pub(super) fn timeout_ns(text: &str) -> Result<u64, String> {
    let time_ns = units::duration_ns(text).map_err(|error| error.to_string())?;
    match time_ns {
        1_000_000..=3_600_000_000_000 => Ok(time_ns),
        _ => Err("a time from 1ms to 1h is needed, such as 500ms".to_owned()),
    }
}

impl Flags {
    /// The pool that has the items, if they are not in a store.
    pub(super) fn pool(&self) -> Option<PoolConfig> {
        self.pool
            .map(|PoolAddresses { metadata, node }| PoolConfig {
                metadata,
                node,
                from: self.pool_from,
                is_steered: self.pool_steered,
                timeout_ns: self.pool_timeout.unwrap_or(TIMEOUT_NS),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_has_one_address_or_two() {
        let [metadata, node] = [3, 2].map(|last| Ipv4Addr::new(127, 0, 0, last));
        assert_eq!(
            addresses("127.0.0.3"),
            Ok(PoolAddresses {
                metadata,
                node: None
            })
        );
        assert_eq!(
            addresses("127.0.0.3,127.0.0.2"),
            Ok(PoolAddresses {
                metadata,
                node: Some(node)
            })
        );
        for text in ["", "localhost", "127.0.0.3:4791", "127.0.0.3,", "::1"] {
            assert!(addresses(text).is_err(), "{text}");
        }
        assert_eq!(timeout_ns("500ms"), Ok(500_000_000));
        assert!(timeout_ns("0").is_err() && timeout_ns("2h").is_err());
    }
}
