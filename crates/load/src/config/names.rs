//! Parses the names that the user gives in flags: of a protocol, of a carrier, and of the operation
//! of a script of lengths.

use std::str::FromStr;

use workload::Op;

use super::{CarrierKind, ConfigError, Lengths, Protocol};

impl FromStr for Protocol {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "text" => Ok(Self::Text),
            "meta" => Ok(Self::Meta),
            "binary" => Ok(Self::Binary),
            "textile" => Ok(Self::Textile),
            "http" => Ok(Self::Http),
            _ => Err(unknown(
                "protocol",
                text,
                "text, meta, binary, textile or http",
            )),
        }
    }
}

// `CarrierKind::PerOperation` has no name, because protocol textile prescribes it.
impl FromStr for CarrierKind {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "stream" => Ok(Self::Stream),
            "udp" => Ok(Self::Udp),
            "one-shot" => Ok(Self::OneShot),
            _ => Err(unknown("carrier", text, "stream, udp or one-shot")),
        }
    }
}

impl FromStr for Lengths {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "get" => Ok(Self::Get),
            "set" => Ok(Self::Set),
            "delete" => Ok(Self::Delete),
            _ => Err(unknown("lengths", text, "get, set or delete")),
        }
    }
}

impl Lengths {
    /// Returns the operation of the requests.
    pub(crate) const fn op(self) -> Op {
        match self {
            Self::Get => Op::Get,
            Self::Set => Op::Set,
            Self::Delete => Op::Delete,
        }
    }
}

fn unknown(setting: &'static str, text: &str, names: &str) -> ConfigError {
    ConfigError::new(setting, format!("there is no `{text}`; give {names}"))
}
