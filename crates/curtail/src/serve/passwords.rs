//! The flags that make clients log in: `-Y` and `-S`.

use std::env;
use std::path::PathBuf;

use anyhow::bail;
use server::{AllowedProtocols, PasswordFile, PasswordFormat};

use super::flags::Flags;

/// The environment variable that names the file of passwords of `-S`, as in memcached.
const SASL_FILE: &str = "MEMCACHED_SASL_PWDB";

impl Flags {
    /// The protocols of the listeners. As in memcached, `-Y` is for text and `-S` for the binary
    /// protocol. Both together are for both.
    pub(super) fn protocols(&self) -> anyhow::Result<AllowedProtocols> {
        use AllowedProtocols::{Auto, Binary, Text};
        let (flag, protocol) = match (&self.auth_file, self.enable_sasl) {
            (None, true) => ("-S", Binary),
            (Some(_), false) => ("-Y", Text),
            _ => return Ok(self.protocol.unwrap_or(Auto)),
        };
        match self.protocol {
            Some(given) if given != protocol => bail!(
                "-B: {flag} has passwords for one protocol only; leave -B out, or give -S and -Y FILE \
                 for both protocols"
            ),
            _ => Ok(protocol),
        }
    }

    /// The file of passwords.
    pub(super) fn passwords(&self) -> anyhow::Result<Option<PasswordFile>> {
        let Some(flag) = self.login_flag() else {
            return Ok(None);
        };
        if self.udp_port != 0 {
            bail!("-U: a datagram cannot have a password ({flag}); leave one of them out");
        }
        let file = |path, format| Ok(Some(PasswordFile { path, format }));
        if let Some(path) = &self.auth_file {
            return file(path.clone(), PasswordFormat::Plain);
        }
        let Some(path) = env::var_os(SASL_FILE) else {
            bail!(
                "-S: there is no file of passwords; name one with -Y, or with the environment \
                 variable {SASL_FILE}"
            );
        };
        file(PathBuf::from(path), PasswordFormat::Sasl)
    }

    /// The flag that makes clients log in.
    fn login_flag(&self) -> Option<&'static str> {
        match (&self.auth_file, self.enable_sasl) {
            (_, true) => Some("-S"),
            (Some(_), false) => Some("-Y"),
            (None, false) => None,
        }
    }
}
