//! Placeholders in command lines: `{NAME}`, where the name is that of a factor or of a value that
//! the laboratory provides, such as `{port}`.

/// Whether a name may contain this character; factors have such names.
pub(crate) fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

pub(crate) fn names(word: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = word;
    while let Some((_, name, after)) = next(rest) {
        names.push(name);
        rest = after;
    }
    names
}

/// `word` with the values in place of the names. Values are not searched for names again. None: a
/// name has no value.
pub(crate) fn fill(word: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, name, after)) = next(rest) {
        filled.push_str(before);
        filled.push_str(&value(name)?);
        rest = after;
    }
    filled.push_str(rest);
    Some(filled)
}

/// The text before the first placeholder, its name, and the text after it. Braces around anything
/// but a name, as in a program of awk, are no placeholder.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('{').map(|at| from + at) {
        let inside = &text[open + 1..];
        let len = inside.find(|c| !is_in_name(c)).unwrap_or(inside.len());
        if len > 0 && inside[len..].starts_with('}') {
            return Some((&text[..open], &inside[..len], &inside[len + 1..]));
        }
        from = open + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_in_braces_are_placeholders() {
        assert_eq!(names("{ s += $1 } END { print s }"), [""; 0]);
        assert_eq!(names("a{n}b{x-y}"), ["n", "x-y"]);
        assert_eq!(names("{{n}"), ["n"]);
        assert_eq!(names("{}{n"), [""; 0]);
    }

    #[test]
    fn values_are_not_searched_for_names() {
        let value = |name: &str| (name == "n").then(|| "{m}".to_owned());
        assert_eq!(fill("a{n}b", value), Some("a{m}b".to_owned()));
        assert_eq!(fill("{n}{m}", value), None);
    }
}
