//! Random operations of one thread against a model.

use std::collections::HashMap;

use crate::textile::{Design, Stored, limits};
use proptest::prelude::*;

use super::{single, value_of};

/// Enough for the table to double three times.
const KEYS: usize = 450;
/// Longest value, in bytes: more than a small maxmem, and not too much to copy a thousand times.
const LEN_MAX: u64 = 20_001;

/// Runs of one letter, as in the study's load. Many of them collide.
fn key(number: usize) -> Vec<u8> {
    vec![b'a' + (number % 26) as u8; 1 + number / 26]
}

#[derive(Debug, Clone, Copy)]
enum Len {
    Bytes(u64),
    Maxmem,
    AboveMaxmem,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Set(usize, Len, u8),
    Get(usize),
    Delete(usize),
    SetMaxmem(u64),
}

fn operations(keys: usize, len_max: u64) -> impl Strategy<Value = Vec<Operation>> {
    let len = prop_oneof![
        20 => (0..=len_max).prop_map(Len::Bytes),
        2 => (0..=3_u64).prop_map(Len::Bytes),
        1 => Just(Len::Maxmem),
        1 => Just(Len::AboveMaxmem),
    ];
    let operation = prop_oneof![
        12 => (0..keys, len, any::<u8>()).prop_map(|(k, l, fill)| Operation::Set(k, l, fill)),
        8 => (0..keys).prop_map(Operation::Get),
        4 => (0..keys).prop_map(Operation::Delete),
        1 => (0..5000_u64).prop_map(Operation::SetMaxmem),
    ];
    proptest::collection::vec(operation, 0..1000)
}

fn maxmems() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..100_u64, 100..LEN_MAX, Just(1 << 22)]
}

fn value(len: Len, fill: u8, maxmem: u64) -> Vec<u8> {
    let len = match len {
        Len::Bytes(len) => len,
        Len::Maxmem => maxmem.min(LEN_MAX),
        Len::AboveMaxmem => (maxmem + 1).min(LEN_MAX),
    };
    vec![fill; len as usize]
}

/// Evicts exactly the least recently used items.
struct Exact {
    maxmem: u64,
    /// The least recently used one first.
    items: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Exact {
    fn used(&self) -> u64 {
        self.items.iter().map(|(_, value)| value.len() as u64).sum()
    }

    fn take(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let position = self.items.iter().position(|(other, _)| other == key)?;
        Some(self.items.remove(position).1)
    }

    fn set(&mut self, key: Vec<u8>, value: Vec<u8>) -> Stored {
        if value.len() as u64 > self.maxmem {
            return Stored::TooLarge;
        }
        self.take(&key);
        while self.used() + value.len() as u64 > self.maxmem {
            self.items.remove(0);
        }
        self.items.push((key, value));
        Stored::Stored
    }

    fn get(&mut self, key: Vec<u8>) -> Option<Vec<u8>> {
        let value = self.take(&key)?;
        self.items.push((key, value.clone()));
        Some(value)
    }
}

fn is_exact(design: Design, mut maxmem: u64, operations: &[Operation]) {
    let mut cache = single(design, maxmem);
    let mut model = Exact {
        maxmem,
        items: Vec::new(),
    };
    for operation in operations {
        match *operation {
            Operation::Set(number, len, fill) => {
                let (key, value) = (key(number), value(len, fill, maxmem));
                let stored = cache.set(&key, &value);
                assert_eq!(stored, model.set(key, value), "{design}");
            }
            Operation::Get(number) => {
                let found = value_of(&mut *cache, &key(number));
                assert_eq!(found, model.get(key(number)), "{design}");
            }
            Operation::Delete(number) => {
                let deleted = cache.delete(&key(number));
                assert_eq!(deleted, model.take(&key(number)).is_some(), "{design}");
            }
            Operation::SetMaxmem(bytes) => {
                let is_empty = model.used() == 0;
                assert_eq!(cache.set_maxmem(bytes), is_empty, "{design}");
                if is_empty {
                    (maxmem, model.maxmem) = (bytes, bytes);
                }
            }
        }
        assert_eq!(cache.space_used(), model.used(), "{design}");
    }
    for number in 0..KEYS {
        let found = value_of(&mut *cache, &key(number));
        assert_eq!(found, model.get(key(number)), "{design}");
    }
}

/// What a cache may hold that evicts whichever items it chooses.
struct Contract {
    design: Design,
    maxmem: u64,
    /// Values set last, and whether each may have been evicted since.
    items: HashMap<usize, (Vec<u8>, bool)>,
}

impl Contract {
    /// Whether all items fit at once, so that none may be evicted.
    fn fits(&self) -> bool {
        let lens = self.items.values().map(|(value, _)| value.len() as u64);
        match self.design {
            // An item costs more than its value here.
            Design::Store => lens.map(|len| len + 200).sum::<u64>() <= self.maxmem / 4,
            Design::Presized => {
                // As many slots as for the smallest maxmem.
                self.items.len() <= limits::SLOTS_INITIAL / 2 && lens.sum::<u64>() <= self.maxmem
            }
            _ => lens.sum::<u64>() <= self.maxmem,
        }
    }

    fn all_may_be_evicted(&mut self) {
        for (_, may_be_evicted) in self.items.values_mut() {
            *may_be_evicted = true;
        }
    }

    fn set(&mut self, number: usize, value: Vec<u8>) {
        self.items.insert(number, (value, false));
        if !self.fits() {
            self.all_may_be_evicted();
            self.items.get_mut(&number).unwrap().1 = false;
        }
    }

    fn check(&mut self, number: usize, found: Option<&[u8]>) {
        let design = self.design;
        let expected = self.items.get(&number);
        match (found, expected) {
            (Some(found), Some((value, _))) => assert_eq!(found, value, "{design}"),
            (Some(_), None) => panic!("{design}: key {number} was never set or was deleted"),
            (None, Some((_, false))) => panic!("{design}: key {number} had no reason to go"),
            (None, _) => drop(self.items.remove(&number)),
        }
    }
}

fn keeps_contract(design: Design, mut maxmem: u64, operations: &[Operation]) {
    let mut cache = single(design, maxmem);
    let mut model = Contract {
        design,
        maxmem,
        items: HashMap::new(),
    };
    for operation in operations {
        match *operation {
            Operation::Set(number, len, fill) => {
                let value = value(len, fill, maxmem);
                let fits = value.len() as u64 <= maxmem;
                match cache.set(&key(number), &value) {
                    Stored::Stored => {
                        assert!(fits, "{design}");
                        model.set(number, value);
                    }
                    Stored::TooLarge => assert!(!fits || design == Design::Store, "{design}"),
                    Stored::NoRoom => panic!("{design}: no other thread is there"),
                }
            }
            Operation::Get(number) => {
                let found = value_of(&mut *cache, &key(number));
                model.check(number, found.as_deref());
            }
            Operation::Delete(number) => {
                let deleted = cache.delete(&key(number));
                if let Some((_, false)) = model.items.remove(&number) {
                    assert!(deleted, "{design}: key {number} had no reason to go");
                }
            }
            // The store's own limit is below what the model knows of a small maxmem.
            Operation::SetMaxmem(_) if design == Design::Store => {}
            Operation::SetMaxmem(bytes) => {
                if cache.set_maxmem(bytes) {
                    assert_eq!(cache.space_used(), 0, "{design}");
                    (maxmem, model.maxmem) = (bytes, bytes);
                }
            }
        }
        assert!(cache.space_used() <= maxmem, "{design}");
    }
    let mut sum = 0;
    for number in 0..KEYS {
        let found = value_of(&mut *cache, &key(number));
        model.check(number, found.as_deref());
        sum += found.map_or(0, |value| value.len() as u64);
    }
    assert!(
        design == Design::Store || cache.space_used() == sum,
        "{design}"
    );
}

proptest! {
    #[test]
    fn exact_designs_agree_with_the_model(
        maxmem in maxmems(),
        operations in operations(KEYS, 400),
    ) {
        for design in [Design::Unthreaded, Design::Global, Design::PerEntry] {
            is_exact(design, maxmem, &operations);
        }
    }

    #[test]
    fn other_designs_keep_the_contract(
        maxmem in maxmems(),
        operations in operations(KEYS, 400),
    ) {
        for design in [Design::Presized, Design::Striped] {
            keeps_contract(design, maxmem, &operations);
        }
    }

    #[test]
    fn few_items_are_evicted_by_memory_alone(
        maxmem in 0..2000_u64,
        operations in operations(40, 400),
    ) {
        for design in [Design::Presized, Design::Striped] {
            keeps_contract(design, maxmem, &operations);
        }
    }

    #[test]
    fn the_store_keeps_the_contract(operations in operations(KEYS, 20_000)) {
        keeps_contract(Design::Store, 1 << 21, &operations);
    }
}
