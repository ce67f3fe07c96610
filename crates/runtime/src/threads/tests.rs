//! Unit test of the bound on the number of threads.

#[test]
fn maximum_of_connections_is_computed_from_the_limit_of_mappings() {
    // (65 530 - `OTHER_MAPPINGS`) / `MAPPINGS_PER_THREAD`.
    assert_eq!(super::thread_connections_max(65_530), 15_614);
    assert_eq!(super::thread_connections_max(0), 1);
    assert_eq!(
        super::thread_connections_max(super::thread_mappings_needed(100)),
        100
    );
}
