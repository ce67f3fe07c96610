//! The token that a coordinator and its agents share, and the proofs with which each end of a
//! connection shows that it has the token.
//!
//! The token itself is never sent. Each end generates a random number, its nonce, and sends it.
//! Each end also sends a proof: an HMAC-SHA256 (RFC 2104) whose key is the token and whose input is
//! both nonces and the role of the sender. A proof is not valid on another connection, because the
//! nonces differ there. An attacker cannot return a received proof to its sender either, because
//! the sender expects a proof with the other role.
//!
//! The messages after the proofs are neither encrypted nor authenticated. A host without the token
//! cannot connect to an agent and make the agent generate load. But the token does not stop an
//! attacker that can change the packets of another host's connection.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use hmac_sha256::HMAC;

use crate::limits::{TOKEN_FILE_LEN_MAX, TOKEN_LEN_MAX, TOKEN_LEN_MIN};

/// A random number that is used for one connection only.
pub(crate) type Nonce = [u8; 32];
/// An HMAC by which one end of a connection proves that it has the token.
pub(crate) type Proof = [u8; 32];

/// The secret that a coordinator and its agents share. The default is the empty token: anyone can
/// compute its proofs, so it protects nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(Vec<u8>);

/// Why a token cannot be read from a file or made of bytes.
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
    /// The file is longer than [`TOKEN_FILE_LEN_MAX`].
    #[error(
        "read the token: its file has more than {TOKEN_FILE_LEN_MAX} bytes; give a file that \
         contains only the token, on one line"
    )]
    FileLength,
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
    /// The file cannot be read or is too long, or the token's length is out of bounds.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let mut bytes = Vec::new();
        // One byte more than the maximum shows that the file is too long. The rest of such a file
        // is not read, because it may have no end.
        let read_max = TOKEN_FILE_LEN_MAX as u64 + 1;
        File::open(path)?.take(read_max).read_to_end(&mut bytes)?;
        if bytes.len() > TOKEN_FILE_LEN_MAX {
            return Err(TokenError::FileLength);
        }
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

    /// Whether this is the empty token, which is the default.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Computes the proof that the end with the role `role` sends.
    pub(crate) fn prove(&self, role: Role, nonces: &Nonces) -> Proof {
        HMAC::mac(proof_input(role, nonces), &self.0)
    }

    /// Whether `proof` is the proof that the end with the role `role` must send. The duration of
    /// the comparison does not depend on the bytes. Therefore an attacker cannot find the expected
    /// proof by measuring durations.
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

/// The input of the HMAC: the nonces of both ends and the name of the sender's role.
fn proof_input(role: Role, nonces: &Nonces) -> Vec<u8> {
    let role_name: &[u8] = match role {
        Role::Coordinator => b"curtail coordinator",
        Role::Agent => b"curtail agent",
    };
    [&nonces.agent, &nonces.coordinator, role_name].concat()
}

/// Generates a nonce with the kernel's random number generator.
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
    fn proof_is_not_valid_for_another_token_another_role_or_swapped_nonces() {
        let right = token("correct horse battery");
        let nonces = Nonces {
            agent: [1; 32],
            coordinator: [2; 32],
        };
        let proof = right.prove(Role::Coordinator, &nonces);
        assert!(right.verify(Role::Coordinator, &nonces, &proof));
        assert!(!right.verify(Role::Agent, &nonces, &proof));
        // This token differs in one letter.
        assert!(!token("correct horse bettery").verify(Role::Coordinator, &nonces, &proof));
        assert!(!Token::default().verify(Role::Coordinator, &nonces, &proof));
        let swapped = Nonces {
            agent: nonces.coordinator,
            coordinator: nonces.agent,
        };
        assert!(!right.verify(Role::Coordinator, &swapped, &proof));
    }

    /// Reads the token from a file with this content. `name` distinguishes the files of the tests.
    fn read(name: &str, content: &[u8]) -> Result<Token, TokenError> {
        let path =
            std::env::temp_dir().join(format!("curtail-token-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        let read = Token::read(&path);
        std::fs::remove_file(&path).unwrap();
        read
    }

    #[test]
    fn white_space_is_ignored_debug_hides_the_token_and_a_short_token_is_an_error() {
        let read = read("short", b"  0123456789abcdef\n").unwrap();
        assert_eq!(read, token("0123456789abcdef"));
        assert_eq!(format!("{read:?}"), "a token");
        let short = Token::new(b"short").unwrap_err().to_string();
        assert!(short.contains("it has 5 bytes; give 16 to 1024"), "{short}");
    }

    /// Regression: at most 64 bytes of white space were allowed for. After more of it, the end of a
    /// long token was not read, and the rest was used as the token.
    #[test]
    fn long_token_behind_much_white_space_is_read_completely() {
        let (white_space, longest) = ([b' '; 1000], "0123456789abcdef".repeat(64));
        let content = [&white_space, longest.as_bytes(), b"\n"].concat();
        assert_eq!(read("longest", &content).unwrap(), token(&longest));
        let too_long = [&content, &white_space[..], &[b' '; TOKEN_FILE_LEN_MAX]].concat();
        assert!(matches!(
            read("too-long", &too_long),
            Err(TokenError::FileLength)
        ));
    }

    #[test]
    fn two_generated_nonces_differ() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
