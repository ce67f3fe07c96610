//! The hosts for which a server answers.

use std::str;
use std::sync::Arc;

/// The names of the server, as clients may have them in `Host`. A page of another site can make a
/// browser connect here, by a name of its own that it lets point to this server (DNS rebinding);
/// the browser then shows that site what it receives. Such a name contains a dot. So a name with a
/// dot has to be one of these; an address, or a name without a dot such as `localhost`, need not.
#[derive(Debug, Clone, Default)]
pub struct HostNames(Arc<[String]>);

impl HostNames {
    /// These names, without ports.
    #[must_use]
    pub fn new(names: &[String]) -> Self {
        Self(names.into())
    }

    /// Whether a valid value of `Host` is one that the server answers.
    #[must_use]
    pub fn contain(&self, host: &[u8]) -> bool {
        // `[` begins an IPv6 address.
        if !host.contains(&b'.') || host.starts_with(b"[") {
            return true;
        }
        let name = host.split(|&byte| byte == b':').next().unwrap_or_default();
        let is_own = |own: &String| own.as_bytes().eq_ignore_ascii_case(name);
        self.0.iter().any(is_own) || is_ipv4_address(name)
    }
}

/// No name ends in a number.
fn is_ipv4_address(name: &[u8]) -> bool {
    let is_number = |part: &[u8]| str::from_utf8(part).is_ok_and(|it| it.parse::<u8>().is_ok());
    name.split(|&byte| byte == b'.').count() == 4 && name.split(|&byte| byte == b'.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_dot_have_to_be_known() {
        let names = HostNames::new(&["cache.example".to_owned()]);
        for (host, is_contained) in [
            ("", true),
            ("localhost", true),
            ("cache1:9150", true),
            ("127.0.0.1", true),
            ("10.0.0.5:9150", true),
            ("[::1]:9150", true),
            ("[::ffff:10.0.0.5]", true),
            ("Cache.Example:9150", true),
            ("evil.example", false),
            ("evil.example:9150", false),
            ("cache.example.evil.example", false),
            ("10.0.0.5.evil.example", false),
            ("localhost.", false),
        ] {
            assert_eq!(names.contain(host.as_bytes()), is_contained, "{host}");
        }
    }
}
