//! The same uniform numbers make the same records as in YCSB.
//!
//! `ycsb/table.txt` was made with the classes of `site.ycsb:core` 0.17.0 from Maven Central:
//! `ycsb/Table.java` draws a uniform number, draws it again through YCSB's generator, and prints
//! the bits of the number and the record.

use std::collections::HashMap;

use crate::{ScrambledZipfian, Ycsb, Zipfian};

/// From a uniform number to a record.
type Draw = Box<dyn Fn(f64) -> u64>;

#[test]
fn the_same_uniform_numbers_make_the_same_records() {
    let mut drawers: HashMap<(&str, &str, &str), Draw> = HashMap::new();
    let mut compared = 0;
    for line in include_str!("ycsb/table.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, records, theta, uniform, expected] = words[..] else {
            panic!("{line}");
        };
        let draw = drawers.entry((kind, records, theta)).or_insert_with(|| {
            let (records, theta) = (records.parse().unwrap(), theta.parse().unwrap());
            if kind == "zipfian" {
                let law = Zipfian::new(records, theta).unwrap();
                Box::new(move |uniform| law.rank(uniform))
            } else {
                let law = ScrambledZipfian::new(records, theta).unwrap();
                Box::new(move |uniform| law.record(uniform))
            }
        });
        let uniform = f64::from_bits(u64::from_str_radix(uniform, 16).unwrap());
        assert_eq!(draw(uniform), expected.parse::<u64>().unwrap(), "{line}");
        compared += 1;
    }
    assert_eq!((compared, drawers.len()), (900, 8));
}

#[test]
fn workloads_have_names() {
    for workload in Ycsb::ALL {
        assert_eq!(workload.name().parse(), Ok(workload));
    }
    let error = "ycsb-d".parse::<Ycsb>().unwrap_err().to_string();
    assert_eq!(
        error,
        "workload `ycsb-d` is not one of ycsb-a, ycsb-b, ycsb-c, write-only"
    );
}
