//! The shared token, and the proofs that both ends have it.
//!
//! The token itself is never sent. Each end draws a nonce and sends it; each proves with
//! HMAC-SHA256 (RFC 2104) over both nonces and its own role that it has the token. A proof can
//! neither be replayed on another connection, whose nonces differ, nor be returned to its sender,
//! whose role differs. What follows on the connection is neither encrypted nor authenticated: the
//! token keeps strangers from starting a load, and is no protection against those who can change
//! packets.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use hmac_sha256::HMAC;

use crate::limits::{TOKEN_LEN_MAX, TOKEN_LEN_MIN};

/// A random number that is used once.
pub(crate) type Nonce = [u8; 32];
/// A proof of the token.
pub(crate) type Proof = [u8; 32];

/// A shared secret. The default is the empty one, which protects nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(Vec<u8>);

/// Why a token cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("read the token: {0}")]
    Read(#[from] io::Error),
    /// The token is too short or too long.
    #[error(
        "read the token: it has {0} bytes; give {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX} on one line, as \
         `openssl rand -hex 32` prints them"
    )]
    Length(usize),
}

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Coordinator,
    Agent,
}

/// The nonces of both ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonces {
    pub(crate) agent: Nonce,
    pub(crate) coordinator: Nonce,
}

impl Token {
    /// Reads the token from a file, without the white space around it.
    ///
    /// # Errors
    /// The file cannot be read, or the token's length is out of bounds.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut bytes = Vec::new();
        let most = TOKEN_LEN_MAX as u64 + 64;
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Self::new(bytes.trim_ascii())
    }

    /// A token of these bytes.
    ///
    /// # Errors
    /// Their number is out of bounds.
    pub fn new(bytes: &[u8]) -> Result<Self, TokenError> {
        match bytes.len() {
            TOKEN_LEN_MIN..=TOKEN_LEN_MAX => Ok(Self(bytes.to_vec())),
            len => Err(TokenError::Length(len)),
        }
    }

    /// Whether there is no secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The proof of one end.
    pub(crate) fn prove(&self, role: Role, nonces: &Nonces) -> Proof {
        HMAC::mac(proof_input(role, nonces), &self.0)
    }

    /// Whether the proof is that of this end, in a time that does not depend on the bytes.
    pub(crate) fn verify(&self, role: Role, nonces: &Nonces, proof: &Proof) -> bool {
        HMAC::verify(proof_input(role, nonces), &self.0, proof)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A secret does not belong into a log.
        out.write_str(if self.is_empty() {
            "no token"
        } else {
            "a token"
        })
    }
}

/// What is proved.
fn proof_input(role: Role, nonces: &Nonces) -> Vec<u8> {
    let role: &[u8] = match role {
        Role::Coordinator => b"curtail coordinator",
        Role::Agent => b"curtail agent",
    };
    [&nonces.agent, &nonces.coordinator, role].concat()
}

/// A new nonce, from the kernel's source of random numbers.
pub(crate) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    File::open("/dev/urandom")?.read_exact(&mut nonce)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token {
        Token::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_proof_holds_for_its_token_its_nonces_and_its_role() {
        let own = token("correct horse battery");
        let nonces = Nonces {
            agent: [1; 32],
            coordinator: [2; 32],
        };
        let proof = own.prove(Role::Coordinator, &nonces);
        assert!(own.verify(Role::Coordinator, &nonces, &proof));
        assert!(!own.verify(Role::Agent, &nonces, &proof));
        assert!(!token("correct horse bettery").verify(Role::Coordinator, &nonces, &proof));
        assert!(!Token::default().verify(Role::Coordinator, &nonces, &proof));
        let swapped = Nonces {
            agent: nonces.coordinator,
            coordinator: nonces.agent,
        };
        assert!(!own.verify(Role::Coordinator, &swapped, &proof));
    }

    #[test]
    fn a_token_is_read_without_its_line_end_and_never_shown() {
        let folder = std::env::temp_dir().join(format!("curtail-token-{}", std::process::id()));
        std::fs::write(&folder, "  0123456789abcdef\n").unwrap();
        let read = Token::read(&folder);
        std::fs::remove_file(&folder).unwrap();
        let read = read.unwrap();
        assert_eq!(read, token("0123456789abcdef"));
        assert_eq!(format!("{read:?}"), "a token");
        let short = Token::new(b"short").unwrap_err().to_string();
        assert!(short.contains("it has 5 bytes; give 16 to 1024"), "{short}");
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
