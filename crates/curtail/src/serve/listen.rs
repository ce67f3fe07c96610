//! `-l`, `-p`, `-U`: the addresses to listen on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail};

/// The addresses without `-l`.
const ANY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];

/// Listener prefixes that memcached accepts only with TLS.
const TLS_PREFIXES: [&str; 3] = ["notls", "btls", "mtls"];

/// The addresses of the listeners, without duplicates.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) listen: Vec<SocketAddr>,
    /// `proto[ascii]` precedes them: they serve text and meta only.
    pub(super) is_text_only: bool,
    /// Parts of the list without effect, one line each.
    pub(super) notes: Vec<String>,
}

/// Resolves the lists given by `-l`. An address without a port gets `port`; without any list, the
/// result is all addresses of the machine. Commas or semicolons separate addresses, and
/// `proto[ascii]:tag[NAME]:` may precede each.
///
/// # Errors
/// An address cannot be resolved, or names a protocol that is not served, or that other addresses
/// do not name: all have the same protocols.
pub(super) fn addresses(lists: &[String], port: u16) -> anyhow::Result<Addresses> {
    let mut found = Addresses {
        listen: Vec::new(),
        is_text_only: false,
        notes: Vec::new(),
    };
    let named: Vec<&str> = lists
        .iter()
        .flat_map(|list| list.split([',', ';']))
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    if named.is_empty() {
        found.listen = any(port);
        return Ok(found);
    }
    for (index, text) in named.into_iter().enumerate() {
        let (address, is_text_only) = without_prefixes(text, &mut found.notes)?;
        if index > 0 && is_text_only != found.is_text_only {
            bail!(
                "-l {text}: all addresses have the same protocols; give proto[ascii] for all of \
                 them, or -B ascii"
            );
        }
        found.is_text_only = is_text_only;
        for address in resolve(address, port)? {
            // Port 0 is a different port each time.
            if address.port() == 0 || !found.listen.contains(&address) {
                found.listen.push(address);
            }
        }
    }
    Ok(found)
}

/// Removes `proto[…]:` and `tag[…]:`. Also returns whether it was `proto[ascii]:`.
fn without_prefixes<'a>(text: &'a str, notes: &mut Vec<String>) -> anyhow::Result<(&'a str, bool)> {
    if let Some(prefix) = TLS_PREFIXES
        .iter()
        .find(|prefix| text.starts_with(**prefix))
    {
        bail!(
            "-l {text}: {prefix} is for servers with TLS, which is not served; remove the prefix"
        );
    }
    let (mut rest, mut is_text_only) = (text, false);
    if let Some((protocol, behind)) = prefixed(rest, "proto") {
        match protocol {
            "ascii" => is_text_only = true,
            "negotiating" => {}
            _ => bail!(
                "-l {text}: the protocol {protocol:?} is not served at one address; give \
                 proto[ascii], or leave the prefix out and give -B"
            ),
        }
        rest = behind;
    }
    // memcached has a second form with the same meaning: `tag_NAME_:`.
    let tagged = prefixed(rest, "tag").or_else(|| rest.strip_prefix("tag_")?.split_once("_:"));
    if let Some((_, behind)) = tagged {
        notes.push(format!("-l {text} (listeners have no tags)"));
        rest = behind;
    }
    Ok((rest, is_text_only))
}

/// Splits `name[inside]:rest` into `inside` and `rest`.
fn prefixed<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let inside = text.strip_prefix(name)?.strip_prefix('[')?;
    inside.split_once("]:")
}

fn any(port: u16) -> Vec<SocketAddr> {
    ANY.map(|ip| SocketAddr::new(ip, port)).to_vec()
}

fn resolve(text: &str, port: u16) -> anyhow::Result<Vec<SocketAddr>> {
    if text == "*" {
        return Ok(any(port));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(vec![address]);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, digits)) => {
            let port = digits
                .parse()
                .with_context(|| format!("-l {text}: no port {digits:?}"))?;
            (host, port)
        }
        None => (text, port),
    };
    let found = (host, port)
        .to_socket_addrs()
        .with_context(|| format!("-l {text}: no such address (give a host, host:port or IP)"))?;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lists: &[&str]) -> Vec<String> {
        let lists: Vec<String> = lists.iter().map(|&list| list.to_owned()).collect();
        let found = addresses(&lists, 7).unwrap();
        found.listen.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lists_are_joined_without_duplicates() {
        assert_eq!(found(&[]), ["0.0.0.0:7", "[::]:7"]);
        assert_eq!(found(&["*"]), ["0.0.0.0:7", "[::]:7"]);
        assert_eq!(
            found(&["127.0.0.1;[::1]", "127.0.0.1, 127.0.0.1:8,"]),
            ["127.0.0.1:7", "[::1]:7", "127.0.0.1:8"]
        );
    }

    #[test]
    fn a_listener_may_have_a_protocol_and_a_tag() {
        let list = ["proto[ascii]:tag[a]:127.0.0.1:8".to_owned()];
        let with_tag = addresses(&list, 7).unwrap();
        assert_eq!(with_tag.listen, ["127.0.0.1:8".parse().unwrap()]);
        assert_eq!(with_tag.notes.len(), 1, "{with_tag:?}");
        assert!(with_tag.is_text_only);
        assert!(
            !addresses(&["127.0.0.1".to_owned()], 7)
                .unwrap()
                .is_text_only
        );
        for mixed in [
            "proto[ascii]:127.0.0.1,127.0.0.2",
            "127.0.0.1,proto[ascii]:127.0.0.2",
        ] {
            let error = addresses(&[mixed.to_owned()], 7).unwrap_err();
            assert!(error.to_string().contains("-B ascii"), "{error}");
        }
        assert_eq!(found(&["tag_b_:127.0.0.1"]), ["127.0.0.1:7"]);
        for refused in [
            "proto[binary]:127.0.0.1",
            "proto[proxy]:127.0.0.1",
            "notls:127.0.0.1",
        ] {
            let error = addresses(&[refused.to_owned()], 7).unwrap_err();
            assert!(error.to_string().contains("not served"), "{error}");
        }
    }

    #[test]
    fn an_invalid_address_is_named() {
        let error = addresses(&["127.0.0.1:x".to_owned()], 7).unwrap_err();
        assert!(error.to_string().contains("-l 127.0.0.1:x"), "{error}");
    }
}
