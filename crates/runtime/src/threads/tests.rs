//! Unit test of the bound of the number of threads.

#[test]
fn maximum_of_threads_is_computed_from_the_limit_of_mappings() {
    assert_eq!(super::thread_connections_max(65_530), 15_614);
    assert_eq!(super::thread_connections_max(0), 1);
    assert_eq!(
        super::thread_connections_max(super::thread_mappings_needed(100)),
        100
    );
}
