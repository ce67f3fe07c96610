//! What a figure shall reach.

/// A target in words and whether it is reached; none: there is nothing to judge it by.
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
    fn what_cannot_be_judged_is_not_met() {
        assert_eq!(verdict("≤ 2 times", Some(true)), "≤ 2 times: met");
        assert_eq!(verdict("≤ 2 times", Some(false)), "≤ 2 times: not met");
        assert!(verdict("≤ 2 times", None).contains("not judged"));
    }
}
