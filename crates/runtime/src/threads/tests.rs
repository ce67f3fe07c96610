//! How many threads there may be.

#[test]
fn conversations_are_as_many_as_memory_has_areas_for() {
    assert_eq!(super::conversations_max(65_530), 15_614);
    assert_eq!(super::conversations_max(0), 1);
    assert_eq!(
        super::conversations_max(super::memory_areas_wanted(100)),
        100
    );
}
