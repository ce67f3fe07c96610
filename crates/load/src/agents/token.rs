//! The token that a coordinator and its agents share, and the proofs with which each end of a
//! connection shows that it has the token.
//!
//! The token itself is never sent. Each end draws a random nonce and sends it. Each end also sends
//! a proof: the HMAC-SHA256 (RFC 2104), with the token as its key, of both nonces and the sender's
//! role. A proof cannot be replayed on another connection, because the nonces differ there. It
//! cannot be sent back to its sender either, because the roles differ.
//!
//! The messages after the proofs are neither encrypted nor authenticated. The token prevents
//! strangers from starting a load at an agent. It gives no protection from an attacker that can
//! change packets.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use hmac_sha256::HMAC;

use crate::limits::{TOKEN_LEN_MAX, TOKEN_LEN_MIN};

/// A random number that is used once.
pub(crate) type Nonce = [u8; 32];
/// A proof that one end of a connection has the token.
pub(crate) type Proof = [u8; 32];

/// The shared secret of a coordinator and its agents. The default is the empty token, which gives
/// no protection.
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

/// The role of one end of a connection.
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
    /// Reads the token from a file. White space before and after it is ignored.
    ///
    /// # Errors
    /// The file cannot be read, or the token's length is out of bounds.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut bytes = Vec::new();
        // 64 bytes more than the longest token, for white space around it.
        let most = TOKEN_LEN_MAX as u64 + 64;
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Self::new(bytes.trim_ascii())
    }

    /// Makes a token of these bytes.
    ///
    /// # Errors
    /// The number of bytes is below [`TOKEN_LEN_MIN`] or above [`TOKEN_LEN_MAX`].
    pub fn new(bytes: &[u8]) -> Result<Self, TokenError> {
        match bytes.len() {
            TOKEN_LEN_MIN..=TOKEN_LEN_MAX => Ok(Self(bytes.to_vec())),
            len => Err(TokenError::Length(len)),
        }
    }

    /// Whether this is the empty token, which is no secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Computes the proof that the end with this role sends.
    pub(crate) fn prove(&self, role: Role, nonces: &Nonces) -> Proof {
        HMAC::mac(proof_input(role, nonces), &self.0)
    }

    /// Whether `proof` is the proof of the end with this role. The time that the comparison takes
    /// does not depend on the bytes, so it reveals nothing about the expected proof.
    pub(crate) fn verify(&self, role: Role, nonces: &Nonces, proof: &Proof) -> bool {
        HMAC::verify(proof_input(role, nonces), &self.0, proof)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret must not appear in a log.
        out.write_str(if self.is_empty() {
            "no token"
        } else {
            "a token"
        })
    }
}

/// The bytes whose HMAC is the proof.
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
    fn proof_is_valid_only_for_its_token_its_nonces_and_its_role() {
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
    fn token_is_read_without_white_space_and_not_shown_by_debug() {
        let path = std::env::temp_dir().join(format!("curtail-token-{}", std::process::id()));
        std::fs::write(&path, "  0123456789abcdef\n").unwrap();
        let read = Token::read(&path);
        std::fs::remove_file(&path).unwrap();
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
