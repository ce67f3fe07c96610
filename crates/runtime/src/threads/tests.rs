//! How many threads there may be.

#[test]
fn conversations_are_as_many_as_memory_has_areas_for() {
    assert_eq!(super::thread_connections_max(65_530), 15_614);
    assert_eq!(super::thread_connections_max(0), 1);
    assert_eq!(
        super::thread_connections_max(super::thread_mappings_needed(100)),
        100
    );
}
