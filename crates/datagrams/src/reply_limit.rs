//! The bound of a reply's length, against the use of a server to flood others.
//!
//! The sender's address of a datagram can be forged. A server that answers a short request with a
//! long reply then sends the reply to a third party, which is how memcached became the strongest
//! amplifier of attacks in 2018. The bound applies to strangers. A forged address of a private
//! network does not arrive from the internet, and a reply to it does not leave the network.

use std::net::{IpAddr, SocketAddr};

use crate::limits::STRANGER_FACTOR;

/// How long a reply may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyLimit {
    /// How many times as long as its request a reply to a stranger may be, headers of this protocol
    /// included. `None`: there is no limit.
    pub stranger_factor: Option<u32>,
}

impl Default for ReplyLimit {
    fn default() -> Self {
        Self {
            stranger_factor: Some(STRANGER_FACTOR),
        }
    }
}

impl ReplyLimit {
    /// Whether a reply of `reply_len` bytes may be sent to a peer that has sent `request_len`
    /// bytes.
    #[must_use]
    pub fn allows(self, peer: SocketAddr, request_len: usize, reply_len: usize) -> bool {
        let Some(factor) = self.stranger_factor else {
            return true;
        };
        reply_len <= request_len.saturating_mul(factor as usize) || !is_stranger(peer.ip())
    }
}

/// Whether the address is none of this machine's loopback, of a private network (RFC 1918, RFC
/// 4193) or of the local link.
fn is_stranger(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local()),
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_to_strangers_alone_are_bounded() {
        let peer = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 9);
        let limit = ReplyLimit::default();
        for stranger in [
            "8.8.8.8",
            "172.32.0.1",
            "2001:db8::1",
            "::ffff:8.8.8.8",
            "100.64.0.1",
        ] {
            assert!(limit.allows(peer(stranger), 15, 45), "{stranger}");
            assert!(!limit.allows(peer(stranger), 15, 46), "{stranger}");
            let none = ReplyLimit {
                stranger_factor: None,
            };
            assert!(none.allows(peer(stranger), 15, 1 << 20));
        }
        for known in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(limit.allows(peer(known), 15, 1 << 20), "{known}");
        }
    }
}
