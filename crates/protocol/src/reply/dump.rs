//! Lines of lists of items: `lru_crawler metadump`, `lru_crawler mgdump`, `stats cachedump`.

use crate::{base64, decimal};

/// The end of a `metadump` that may lack items.
pub const DUMP_INCOMPLETE: &[u8] = b"ERROR locked try again later\r\n";

/// An item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpFields<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The Unix second of its expiry. `None`: never.
    pub expires_s: Option<u64>,
    /// The Unix second of its last read or write.
    pub accessed_s: u64,
    /// Its CAS.
    pub cas: u64,
    /// It has been read.
    pub fetched: bool,
    /// The number of its size class.
    pub class: u32,
    /// Its length in bytes, as memcached counts it.
    pub item_len: u64,
    /// The client's own 32 bits.
    pub client_flags: u32,
    /// Its key was last stored in base64.
    pub base64_key: bool,
    /// The length of its value in bytes.
    pub value_len: u64,
}

/// Writes a line of `metadump`. As in memcached, it ends in a space and a line feed.
pub fn metadump(out: &mut Vec<u8>, item: &DumpFields<'_>) {
    out.extend_from_slice(b"key=");
    uri_encoded(out, item.key);
    match item.expires_s {
        Some(at_s) => number(out, b" exp=", at_s),
        None => out.extend_from_slice(b" exp=-1"),
    }
    number(out, b" la=", item.accessed_s);
    number(out, b" cas=", item.cas);
    out.extend_from_slice(if item.fetched {
        b" fetch=yes"
    } else {
        b" fetch=no"
    });
    number(out, b" cls=", item.class.into());
    number(out, b" size=", item.item_len);
    number(out, b" flags=", item.client_flags.into());
    out.extend_from_slice(b" \n");
}

/// Writes a line of `mgdump`: a meta command that reads the key.
pub fn mgdump(out: &mut Vec<u8>, item: &DumpFields<'_>) {
    out.extend_from_slice(b"mg ");
    if item.base64_key || !is_printable(item.key) {
        base64::encode(out, item.key);
        out.extend_from_slice(b" b\r\n");
    } else {
        out.extend_from_slice(item.key);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes a line of `cachedump`. A key that contains a space or a control character is encoded as
/// in `metadump`.
pub fn cachedump(out: &mut Vec<u8>, item: &DumpFields<'_>) {
    out.extend_from_slice(b"ITEM ");
    match is_printable(item.key) {
        true => out.extend_from_slice(item.key),
        false => uri_encoded(out, item.key),
    }
    number(out, b" [", item.value_len);
    number(out, b" b; ", item.expires_s.unwrap_or(0));
    out.extend_from_slice(b" s]\r\n");
}

/// Appends `key`, percent-encoded (RFC 3986, section 2.1) except letters, digits and `-._~`.
/// Without the encoding, a key that was sent in base64 could put line ends into the reply.
pub fn uri_encoded(out: &mut Vec<u8>, key: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in key {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte),
            _ => out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
    }
}

fn is_printable(key: &[u8]) -> bool {
    key.iter().all(|&byte| byte > b' ' && byte != 0x7f)
}

fn number(out: &mut Vec<u8>, name: &[u8], value: u64) {
    out.extend_from_slice(name);
    decimal::write(out, value);
}
