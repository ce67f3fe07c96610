//! Unusual keys, values and limits.

use crate::textile::{Design, Stored};

use super::{SHARED, single, value_of};

fn all_but_store() -> impl Iterator<Item = Design> {
    Design::ALL.into_iter().filter(|d| *d != Design::Store)
}

#[test]
fn a_value_as_long_as_maxmem_replaces_everything_and_a_longer_one_nothing() {
    for design in all_but_store() {
        let mut cache = single(design, 100);
        for key in [b"a", b"b", b"c"] {
            assert_eq!(cache.set(key, &[1; 33]), Stored::Stored, "{design}");
        }
        assert_eq!(cache.set(b"a", &[2; 101]), Stored::TooLarge, "{design}");
        assert_eq!(cache.set(b"new", &[2; 101]), Stored::TooLarge, "{design}");
        for key in [b"a", b"b", b"c"] {
            assert_eq!(value_of(&mut *cache, key), Some(vec![1; 33]), "{design}");
        }
        assert_eq!(cache.set(b"whole", &[3; 100]), Stored::Stored, "{design}");
        assert_eq!(cache.space_used(), 100, "{design}");
        assert_eq!(value_of(&mut *cache, b"a"), None, "{design}");
        let whole = value_of(&mut *cache, b"whole");
        assert_eq!(whole, Some(vec![3; 100]), "{design}");
        assert_eq!(cache.set(b"whole", &[4; 100]), Stored::Stored, "{design}");
        let whole = value_of(&mut *cache, b"whole");
        assert_eq!(whole, Some(vec![4; 100]), "{design}");
        assert!(
            cache.delete(b"whole") && !cache.delete(b"whole"),
            "{design}"
        );
        assert_eq!(cache.space_used(), 0, "{design}");
    }
}

#[test]
fn keys_are_any_bytes() {
    let long = vec![b'k'; 100_000];
    let keys: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"a", b"a\0", &long];
    for design in all_but_store() {
        let mut cache = single(design, 1000);
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(cache.set(key, &[number as u8]), Stored::Stored, "{design}");
        }
        for (number, key) in keys.iter().enumerate() {
            let value = value_of(&mut *cache, key);
            assert_eq!(value, Some(vec![number as u8]), "{design}");
        }
        assert!(cache.delete(b"") && !cache.delete(b""), "{design}");
        assert_eq!(value_of(&mut *cache, b""), None, "{design}");
        assert_eq!(value_of(&mut *cache, b"\0"), Some(vec![1]), "{design}");
    }
}

#[test]
fn a_cache_without_memory_stores_empty_values() {
    for design in all_but_store() {
        let mut cache = single(design, 0);
        assert_eq!(cache.set(b"key", b"v"), Stored::TooLarge, "{design}");
        assert_eq!(cache.set(b"key", b""), Stored::Stored, "{design}");
        assert_eq!(value_of(&mut *cache, b"key"), Some(vec![]), "{design}");
        assert_eq!(cache.space_used(), 0, "{design}");
    }
}

#[test]
fn maxmem_changes_while_the_cache_is_empty() {
    for design in Design::ALL {
        let mut cache = single(design, 1 << 20);
        assert!(cache.set_maxmem(2), "{design}");
        assert_eq!(cache.set(b"key", b"abc"), Stored::TooLarge, "{design}");
        assert_eq!(cache.set(b"key", b"ab"), Stored::Stored, "{design}");
        assert!(!cache.set_maxmem(3), "{design}");
        assert!(cache.delete(b"key"), "{design}");
        // Its number of slots is fixed by now.
        if design != Design::Presized {
            assert!(cache.set_maxmem(1 << 24), "{design}");
            assert_eq!(cache.set(b"key", b"abc"), Stored::Stored, "{design}");
        }
    }
}

#[test]
fn all_handles_follow_a_change_of_maxmem() {
    for design in SHARED {
        let cache = super::shared(design, 1 << 20);
        let (mut one, mut other) = (cache.handle(), cache.handle());
        assert!(one.set_maxmem(10));
        assert_eq!(other.set(b"key", &[1; 11]), Stored::TooLarge, "{design}");
        assert_eq!(other.set(b"key", &[1; 10]), Stored::Stored, "{design}");
        assert_eq!(value_of(&mut *one, b"key"), Some(vec![1; 10]), "{design}");
    }
}

#[test]
fn the_store_rejects_keys_that_it_cannot_hold() {
    let mut cache = single(Design::Store, 1 << 20);
    for key in [&b""[..], &[b'k'; 251]] {
        assert_eq!(cache.set(key, b"value"), Stored::TooLarge);
        assert_eq!(value_of(&mut *cache, key), None);
        assert!(!cache.delete(key));
    }
    let whole = vec![7; 1 << 20];
    assert_eq!(cache.set(b"whole", &whole), Stored::TooLarge);
    assert_eq!(cache.set(b"third", &whole[..(1 << 20) / 3]), Stored::Stored);
    let third = value_of(&mut *cache, b"third");
    assert_eq!(third.as_deref(), Some(&whole[..(1 << 20) / 3]));
}
