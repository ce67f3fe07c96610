//! Lists of all items.

use protocol::{Classes, Crawler, DumpForm};

use super::meta::stored_key;
use crate::Cache;
use crate::cache::{CLIENT_FLAGS_LEN, ITEM_OVERHEAD};

/// The largest items of the first classes of memcached, in bytes.
const CLASS_LENS: [usize; 20] = [
    96, 120, 152, 192, 240, 304, 384, 480, 600, 752, 944, 1184, 1480, 1856, 2320, 2904, 3632, 4544,
    5680, 7104,
];

/// The slab class of an item, for items of at most 7 kB.
pub(super) fn class_of(item_len: usize) -> usize {
    1 + CLASS_LENS.partition_point(|&most| most < item_len)
}

pub(super) fn item_len(key: &[u8], client_flags: u32, value_len: usize) -> usize {
    let flags_len = if client_flags == 0 {
        0
    } else {
        CLIENT_FLAGS_LEN
    };
    ITEM_OVERHEAD + key.len() + flags_len + value_len
}

/// `lru_crawler`
pub(super) fn crawler(cache: &mut Cache, now_s: u64, crawler: Crawler) -> Vec<u8> {
    match crawler {
        Crawler::Enable => b"ERROR failed to start lru crawler thread\r\n".to_vec(),
        Crawler::Disable | Crawler::Crawl(_) => b"OK\r\n".to_vec(),
        Crawler::Dump(form, classes) => dump(cache, now_s, form, classes),
    }
}

/// The items in the order of their keys, which is another one in every cache.
fn dump(cache: &mut Cache, now_s: u64, form: DumpForm, classes: Classes) -> Vec<u8> {
    let mut out = b"OK\r\n".to_vec();
    for (key, item) in cache.items(now_s) {
        let size = item_len(key, item.client_flags, item.value.len());
        let class = class_of(size);
        if !classes.contains(class as u32) {
            continue;
        }
        match form {
            DumpForm::Metadump => {
                out.extend_from_slice(b"key=");
                out.extend_from_slice(uri_encoded(key).as_bytes());
                let exp = item.expires_s.map_or(-1, |at_s| at_s as i64);
                let fetch = if item.fetched { "yes" } else { "no" };
                let (la, cas, flags) = (item.accessed_s, item.cas, item.client_flags);
                let rest = format!(
                    " exp={exp} la={la} cas={cas} fetch={fetch} cls={class} size={size} \
                     flags={flags} \n"
                );
                out.extend_from_slice(rest.as_bytes());
            }
            DumpForm::Mgdump => {
                let (text, is_base64) = stored_key(key, item);
                out.extend_from_slice(b"mg ");
                out.extend_from_slice(&text);
                out.extend_from_slice(if is_base64 { b" b\r\n" } else { b"\r\n" });
            }
        }
    }
    out.extend_from_slice(match form {
        DumpForm::Metadump => b"END\r\n",
        DumpForm::Mgdump => b"EN\r\n",
    });
    out
}

fn uri_encoded(key: &[u8]) -> String {
    let encode = |&byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    key.iter().map(encode).collect()
}
