use super::*;

fn accepted(list: &str) -> Accepted {
    accept(&[list.to_owned()]).unwrap()
}

fn refused(list: &str) -> String {
    format!("{:#}", accept(&[list.to_owned()]).unwrap_err())
}

/// A valid example of each key.
pub(in super::super) fn example(key: &Key) -> String {
    let value = match key.form {
        Form::Bare => return key.name.to_owned(),
        Form::Integer(low, _) | Form::OptionalInteger(low, _) => low.to_string(),
        Form::Kilobytes => "0".to_owned(),
        Form::Fraction(_) => "0.5".to_owned(),
        Form::Word(words) => words[0].to_owned(),
        Form::FileAndSize => "/mnt/cache:1G".to_owned(),
        Form::Anything => "x".to_owned(),
    };
    format!("{}={value}", key.name)
}

#[test]
fn keys_are_listed_once() {
    for (number, key) in KEYS.iter().enumerate() {
        let same = KEYS[..number].iter().any(|other| other.name == key.name);
        assert!(!same, "{} is listed twice", key.name);
    }
}

#[test]
fn no_modern_turns_off_what_later_keys_may_turn_on_again() {
    let shown = |list, row| {
        let settings = accepted(list).settings;
        let found = settings.into_iter().find(|(name, _)| *name == row);
        found.map(|(_, value)| value)
    };
    assert_eq!(shown("no_modern", "lru_crawler").as_deref(), Some("no"));
    let later = "no_modern,lru_crawler";
    assert_eq!(shown(later, "lru_crawler").as_deref(), Some("yes"));
    assert_eq!(shown(later, "slab_automove").as_deref(), Some("0"));
    assert_eq!(shown("modern", "lru_crawler"), None);
}

#[test]
fn a_key_without_effect_is_noted_and_shown() {
    assert_eq!(accepted("modern,maxconns_fast,"), Accepted::default());
    let both = accepted("hashpower=20,slab_automove");
    assert_eq!(
        both.notes,
        [
            "-o hashpower=20 (the index grows by itself)",
            "-o slab_automove (there are no slab classes)"
        ]
    );
    assert_eq!(
        both.settings,
        [
            ("hashpower_init", "20".to_owned()),
            ("slab_automove", "1".to_owned())
        ]
    );
    let bytes = accepted("worker_logbuf_size=16").settings;
    assert_eq!(bytes, [("worker_logbuf_size", "16384".to_owned())]);
    let last = accepted("lru_crawler,no_lru_crawler").settings;
    assert_eq!(last, [("lru_crawler", "no".to_owned())]);
}

#[test]
fn values_outside_memcacheds_bounds_are_rejected() {
    for wrong in [
        "hashpower",
        "hashpower=11",
        "hashpower=33",
        "slab_automove=3",
        "slab_automove_window=2",
        "slab_automove_ratio=0",
        "hot_lru_pct=80",
        "hash_algorithm=md5",
        "slab_chunk_max=0",
        "ext_path=/mnt/cache",
        "modern=yes",
    ] {
        assert!(
            refused(wrong).starts_with(&format!("-o {wrong}: ")),
            "{wrong}"
        );
    }
}

#[test]
fn keys_of_unserved_security_are_rejected() {
    for (key, why) in [("ssl_chain_cert=a", "TLS"), ("proxy_config=a", "proxy")] {
        assert!(refused(key).contains(why), "{key}");
    }
}

#[test]
fn an_unknown_key_gets_a_suggestion() {
    assert_eq!(
        refused("modrn"),
        "-o modrn: no such key; did you mean modern?"
    );
    assert_eq!(refused("zzzzzzzzz"), "-o zzzzzzzzz: no such key");
}
