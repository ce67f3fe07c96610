//! Nodes as values and as bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::limits::{ADDRESS_MAX, GENERATION_MAX, HEADER_LEN, KEY_LEN_MAX, NODE_LEN_MAX};
use crate::{Kind, Link, Next, Node, NodeError, Prefix, node_len};

fn link() -> impl Strategy<Value = Link> {
    (1..=ADDRESS_MAX / 8, 1..=GENERATION_MAX)
        .prop_map(|(eighth, generation)| Link::new(eighth * 8, generation).unwrap())
}

/// Everything of a node, with a key and a value that own their bytes.
#[derive(Clone, Debug)]
struct Content {
    next: Option<Next>,
    own: Link,
    chain: u64,
    kind: Kind,
    client_flags: u32,
    expiry_s: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Content {
    fn node(&self) -> Node<'_> {
        Node {
            next: self.next.unwrap_or(self.own.empty()),
            own: self.own,
            chain: self.chain,
            kind: self.kind,
            client_flags: self.client_flags,
            expiry_s: self.expiry_s,
            key: &self.key,
            value: &self.value,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(self.node().emit(&mut bytes));
        bytes
    }
}

fn content() -> impl Strategy<Value = Content> {
    let next = prop_oneof![
        Just(None),
        Just(Some(Next::Closed)),
        link().prop_map(|link| Some(Next::Node(link))),
    ];
    let kind = prop_oneof![Just(Kind::Anchor), Just(Kind::Value), Just(Kind::Tombstone)];
    let key = vec(any::<u8>(), 0..=KEY_LEN_MAX);
    let value = vec(any::<u8>(), 0..2000);
    let numbers = (1..=u64::MAX, any::<u32>(), any::<u32>());
    (next, link(), numbers, kind, key, value).prop_map(
        |(next, own, (chain, client_flags, expiry_s), kind, key, value)| Content {
            next,
            own,
            chain,
            kind,
            client_flags,
            expiry_s,
            key,
            value,
        },
    )
}

proptest! {
    #[test]
    fn a_node_that_was_written_parses_to_the_same_value(
        content in content(),
        after in vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = content.bytes();
        prop_assert_eq!(bytes.len(), content.node().len());
        let prefix = Prefix::parse(&bytes).unwrap();
        let Node { next, own, chain, .. } = content.node();
        prop_assert_eq!(prefix, Prefix { next, own, chain });
        bytes.extend(after);
        prop_assert_eq!(Node::parse(&bytes), Ok(content.node()));
    }

    #[test]
    fn a_node_that_is_cut_off_says_how_long_it_is(content in content(), cut in any::<usize>()) {
        let bytes = content.bytes();
        let cut = cut % bytes.len();
        let len = if cut < HEADER_LEN { HEADER_LEN } else { bytes.len() };
        prop_assert_eq!(Node::parse(&bytes[..cut]), Err(NodeError::Truncated { len }));
    }

    #[test]
    fn no_changed_bit_goes_unnoticed_but_in_next(content in content(), bit in any::<usize>()) {
        let mut bytes = content.bytes();
        let bit = 64 + bit % (bytes.len() * 8 - 64);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Node::parse(&bytes).is_err());
    }

    #[test]
    fn a_successor_is_linked_in_place(content in content(), successor in link()) {
        let mut bytes = Content { next: None, ..content.clone() }.bytes();
        bytes[..8].copy_from_slice(&successor.word().to_le_bytes());
        let next = Next::Node(successor);
        prop_assert_eq!(Node::parse(&bytes), Ok(Node { next, ..content.node() }));
    }

    #[test]
    fn an_empty_next_of_another_generation_is_refused(content in content(), other in link()) {
        prop_assume!(other.generation() != content.own.generation());
        let mut bytes = content.bytes();
        bytes[..8].copy_from_slice(&other.empty().word().to_le_bytes());
        prop_assert_eq!(Prefix::parse(&bytes), None);
        prop_assert_eq!(Node::parse(&bytes), Err(NodeError::Header));
    }

    #[test]
    fn any_bytes_are_parsed_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Node::parse(&bytes);
        let _ = Prefix::parse(&bytes);
    }

    #[test]
    fn every_word_that_means_something_is_written_as_it_was(word in any::<u64>()) {
        for word in [word, word & 0xff_ffff_ffff, word & !0xff_ffff_ffff, word & !7] {
            if let Some(next) = Next::from_word(word) {
                prop_assert_eq!(next.word(), word);
            }
            prop_assert!(Link::from_word(word).is_none_or(|link| link.word() == word));
        }
    }
}

#[test]
fn the_bytes_of_a_node_are_those_of_the_layout() {
    let own = Link::new(0x1000, 2).unwrap();
    let node = Node {
        next: own.empty(),
        own,
        chain: 0x0102_0304_0506_0708,
        kind: Kind::Value,
        client_flags: 0x11,
        expiry_s: 0x22,
        key: b"key",
        value: b"value",
    };
    let mut bytes = Vec::new();
    assert!(node.emit(&mut bytes));
    let expected = [
        0, 0, 0, 0, 0, 2, 0, 0, // next: empty, of generation 2
        0, 0x10, 0, 0, 0, 2, 0, 0, // own
        8, 7, 6, 5, 4, 3, 2, 1, // chain
        0x11, 0, 0, 0, 0x22, 0, 0, 0, // flags, expiry
        5, 0, 0, 0, 3, 0, 2, 1, // lengths, kind, format
        0, 0, 0, 0, // reserved
    ];
    assert_eq!(bytes[..44], expected);
    assert_eq!(bytes[48..], *b"keyvalue");
}

#[test]
fn nodes_have_bounds() {
    let own = Link::new(8, 1).unwrap();
    let key = [0; KEY_LEN_MAX + 1];
    let value = vec![0; NODE_LEN_MAX];
    let node = |key, value| Node {
        next: own.empty(),
        own,
        chain: 1,
        kind: Kind::Value,
        client_flags: 0,
        expiry_s: 0,
        key,
        value,
    };
    let mut bytes = vec![1];
    assert!(!node(&key, &[]).emit(&mut bytes) && bytes.is_empty());
    let most = NODE_LEN_MAX - node_len(KEY_LEN_MAX, 0);
    assert!(!node(&key[1..], &value[..=most]).emit(&mut bytes));
    assert!(node(&key[1..], &value[..most]).emit(&mut bytes));
    assert_eq!(bytes.len(), NODE_LEN_MAX);
}
