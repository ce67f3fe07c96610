use super::*;

#[test]
fn an_item_last_requested_in_the_first_quarter_of_the_lifetime_is_not_kept() {
    let lifetime = |now_s, mean_s| Lifetime {
        opened_s: 100,
        now_s,
        mean_s,
    };
    let usual = lifetime(160, 60);
    assert!(
        [115, 130, 160]
            .into_iter()
            .all(|at| usual.requested_after_first_quarter(at))
    );
    // A time before the opening of the segment: the item was copied into the segment, and was
    // not requested since. 114 is still in the first quarter.
    assert!(
        [90, 100, 114]
            .into_iter()
            .all(|at| !usual.requested_after_first_quarter(at))
    );
    // A pause of 300 seconds after second 160 does not change these results.
    let after_pause = lifetime(460, 60);
    assert!(
        [115, 130, 160]
            .into_iter()
            .all(|at| after_pause.requested_after_first_quarter(at))
    );
    assert!(!after_pause.requested_after_first_quarter(114));
    // If the mean lifetime is as long as the pause and the time before it, the pause counts:
    // second 160 is in the first quarter of 360 seconds.
    assert!(!lifetime(460, 360).requested_after_first_quarter(160));
    // If the lifetime is below `LIFETIME_MIN_S` (eight seconds), or if no mean is known yet,
    // requests in the first quarter count too.
    assert!(lifetime(107, 60).requested_after_first_quarter(100));
    assert!(!lifetime(108, 60).requested_after_first_quarter(100));
    assert!(lifetime(160, 0).requested_after_first_quarter(100));
    // `now_s` is before `opened_s`, because the segment was opened by a thread with a faster
    // clock.
    assert!(lifetime(90, 60).requested_after_first_quarter(120));
}
