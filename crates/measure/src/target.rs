//! The verdict on a target.

/// A target in words with its verdict. `is_reached` is none where there is nothing to compare with.
#[must_use]
pub fn verdict(target: &str, is_reached: Option<bool>) -> String {
    let verdict = match is_reached {
        Some(true) => "met",
        Some(false) => "not met",
        None => "not judged: too little to compare with",
    };
    format!("{target}: {verdict}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_not_met_or_not_judged() {
        assert_eq!(verdict("≤ 2 times", Some(true)), "≤ 2 times: met");
        assert_eq!(verdict("≤ 2 times", Some(false)), "≤ 2 times: not met");
        assert!(verdict("≤ 2 times", None).contains("not judged"));
    }
}
