//! Which cases of a benchmark are asked for.

/// Those of `names` that `wanted` asks for: the one that is called so, or else all that contain it;
/// all, where nothing is asked for.
///
/// # Errors
///
/// None is called so; the text says what they are called.
pub fn chosen<'n>(names: &[&'n str], wanted: Option<&str>) -> Result<Vec<&'n str>, String> {
    let Some(wanted) = wanted else {
        return Ok(names.to_vec());
    };
    let with = |is: &dyn Fn(&str) -> bool| -> Vec<&'n str> {
        names.iter().copied().filter(|name| is(name)).collect()
    };
    let called = with(&|name| name == wanted);
    let called = match called.is_empty() {
        true => with(&|name| name.contains(wanted)),
        false => called,
    };
    match called.is_empty() {
        true => Err(format!(
            "nothing is called {wanted:?}; there are:\n  {}",
            names.join("\n  ")
        )),
        false => Ok(called),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["near, gets", "near, gets, 2 threads", "far, gets"];

    #[test]
    fn a_whole_name_is_one_case() {
        assert_eq!(chosen(&NAMES, Some("near, gets")).unwrap(), NAMES[..1]);
        assert_eq!(chosen(&NAMES, Some("near")).unwrap(), NAMES[..2]);
        assert_eq!(chosen(&NAMES, None).unwrap(), NAMES);
    }

    #[test]
    fn what_there_is_not_is_said() {
        let said = chosen(&NAMES, Some("nearer")).unwrap_err();
        assert!(
            said.contains("\"nearer\"") && said.contains("far, gets"),
            "{said}"
        );
    }
}
