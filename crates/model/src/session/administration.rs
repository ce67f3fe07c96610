//! Lists of all items.

use protocol::{Classes, Crawler, DumpForm};

use super::meta::stored_key;
use crate::Cache;
use crate::cache::item_len;

/// Number of memcached's slab classes.
const CLASSES: usize = 39;
/// The largest item of the first class, in bytes.
const FIRST_CLASS_LEN: usize = 96;

/// The slab class of an item. The largest item of each class is 1.25 times as long as that of the
/// one before, in steps of 8 bytes; the last class has all longer ones.
pub(super) fn class_of(item_len: usize) -> usize {
    let (mut class, mut most) = (1, FIRST_CLASS_LEN);
    while most < item_len && class < CLASSES {
        class += 1;
        most = (most * 5 / 4).next_multiple_of(8);
    }
    class
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
