//! The sockets at which clients of the cache connect: binding, listening, and the list of them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use service::address_text;
use session::{ListeningKind, ListeningSocket};
use sys::socket::{Bound, Listener};

use crate::config::{Config, UnixSocket};
use crate::error::Error;

/// "Address family not supported": the same number on every architecture of Linux.
const EAFNOSUPPORT: i32 = 97;

/// Binds the configured addresses and paths. As in memcached, a server starts although there are
/// none; `say` receives a warning then.
pub(crate) fn bind(config: &Config, say: &mut dyn FnMut(&str)) -> Result<Vec<Bound>, Error> {
    let failed = |address, source| Error::Listen { address, source };
    let mut bound = bind_all(&config.listen, Bound::tcp, failed)?;
    if let Some(unix) = &config.unix_socket {
        let socket = Bound::unix(&unix.path, unix.mode);
        bound.push(socket.map_err(|source| listen_unix(unix, source))?);
    }
    let is_reachable = !bound.is_empty()
        || config.interface.is_some()
        || config.datagrams.is_some()
        || config.documents.is_some();
    if !is_reachable {
        say("nothing to listen on (give a port other than 0 with -p, or a Unix socket with -s)");
    }
    Ok(bound)
}

/// Binds a socket to each address. On a system without IPv6 it leaves out those that may be.
pub(crate) fn bind_all<T>(
    addresses: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> io::Result<T>,
    failed: impl Fn(SocketAddr, io::Error) -> Error,
) -> Result<Vec<T>, Error> {
    let mut bound = Vec::new();
    for &address in addresses {
        match bind(address) {
            Ok(socket) => bound.push(socket),
            Err(error) if is_optional(address, addresses) && is_no_ipv6(&error) => {}
            Err(error) => return Err(failed(address, error)),
        }
    }
    Ok(bound)
}

/// Starts listening, so that clients can connect.
pub(crate) fn listen(config: &Config, bound: Vec<Bound>) -> Result<Vec<Listener>, Error> {
    let backlog = i32::try_from(config.backlog).unwrap_or(i32::MAX);
    let listening = bound.into_iter().map(|socket| {
        let address = socket.address();
        let outcome = socket.listen(backlog);
        outcome.map_err(|source| match (address, &config.unix_socket) {
            (Some(address), _) => Error::Listen { address, source },
            (None, Some(unix)) => listen_unix(unix, source),
            (None, None) => Error::Start(source),
        })
    });
    listening.collect()
}

/// The sockets for clients of the cache, for `stats conns`.
pub(crate) fn listening(
    config: &Config,
    bound: &[Bound],
    datagrams: &[UdpSocket],
) -> Vec<ListeningSocket> {
    let streams = bound.iter().filter_map(|socket| {
        let unix = config.unix_socket.as_ref();
        let (kind, address) = match socket.address() {
            Some(address) => (ListeningKind::Tcp, address_text(Some(address))),
            None => (
                ListeningKind::Unix,
                format!("unix:{}", unix?.path.display()),
            ),
        };
        Some(ListeningSocket {
            descriptor: socket.as_fd().as_raw_fd(),
            kind,
            address,
        })
    });
    let datagrams = datagrams.iter().filter_map(|socket| {
        let address = address_text(Some(socket.local_addr().ok()?));
        Some(ListeningSocket {
            descriptor: socket.as_raw_fd(),
            kind: ListeningKind::Datagrams,
            address: address.replacen("tcp", "udp", 1),
        })
    });
    streams.chain(datagrams).collect()
}

fn listen_unix(unix: &UnixSocket, source: io::Error) -> Error {
    Error::ListenUnix {
        path: unix.path.clone(),
        source,
    }
}

/// Whether `address` is `[::]` next to `0.0.0.0` on the same port, which together mean all
/// addresses.
fn is_optional(address: SocketAddr, listen: &[SocketAddr]) -> bool {
    let all_of_ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    address.is_ipv6() && address.ip().is_unspecified() && listen.contains(&all_of_ipv4)
}

/// Whether the error means that the system has no IPv6.
fn is_no_ipv6(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, Unsupported};
    // EAFNOSUPPORT has no `ErrorKind`.
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(EAFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ipv6_half_of_all_addresses_may_be_left_out() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let all = [at("0.0.0.0:1"), at("[::]:1")];
        assert!(is_optional(all[1], &all));
        assert!(!is_optional(all[0], &all));
        assert!(!is_optional(all[1], &all[1..]));
        assert!(!is_optional(at("[::1]:1"), &all));
        assert!(is_no_ipv6(&io::Error::from_raw_os_error(EAFNOSUPPORT)));
        assert!(!is_no_ipv6(&io::ErrorKind::AddrInUse.into()));
    }
}
