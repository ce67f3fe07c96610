//! The store against the model: the same operations, the same answers.

use curtail_tests::pair;
use proptest::prelude::*;

/// Bytes whose first one says which world.
fn input(world: u8) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..1500).prop_map(move |mut input| {
        input[0] = world;
        input
    })
}

proptest! {
    #[test]
    fn the_store_answers_as_the_model_does(input in input(0)) {
        pair::check(&input);
    }

    #[test]
    fn what_is_not_evicted_is_as_the_model_has_it(input in input(1)) {
        pair::check(&input);
    }
}
