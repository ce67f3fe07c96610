//! Width, trailing blanks, final newline.
//!
//! The formatter keeps code to 100 columns but leaves comments alone, and manifests, documents
//! and scripts altogether. Rows of tables, lines that hold an address, and prose in documents may
//! be as wide as they must. Golden files (`txt`, `snap`, …) are data and are not read here.

use super::Violation;
use super::tree::{File, Tree};

/// Columns at most.
const WIDTH: usize = 100;

/// What people write and read.
const WRITTEN: [&str; 10] = [
    "rs", "toml", "md", "sh", "py", "html", "css", "js", "yml", "service",
];

/// Looks at every line people write.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| is_written(file)) {
        for (number, line) in file.lines() {
            if line.ends_with([' ', '\t', '\r']) {
                let remedy = "remove them";
                found.push(Violation::new(
                    &file.path,
                    number,
                    "blanks at the end",
                    remedy,
                ));
            }
            if is_too_wide(file, line) {
                let what = format!("{} columns", line.chars().count());
                let remedy = format!("break it before {WIDTH}");
                found.push(Violation::new(&file.path, number, what, remedy));
            }
        }
        if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
            let last = file.lines().count();
            let what = "does not end with one newline";
            found.push(Violation::new(&file.path, last, what, "end it so"));
        }
    }
    found
}

fn is_written(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    WRITTEN.contains(&file.extension())
        || file.path.starts_with(".ci/")
        || name.starts_with("LICENSE")
}

fn is_too_wide(file: &File, line: &str) -> bool {
    let comment = match file.extension() {
        "rs" => line.trim_start().starts_with("//"),
        "toml" | "sh" | "py" | "yml" | "service" => line.trim_start().starts_with('#'),
        _ => file.path.starts_with(".ci/"),
    };
    let row = line
        .trim_start()
        .trim_start_matches(['/', '!', '#', ' '])
        .starts_with('|');
    comment && line.chars().count() > WIDTH && !row && !line.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(path: &str, text: &str) -> Vec<(usize, String)> {
        let found = check(&Tree::of(&[(path, text)]));
        found
            .into_iter()
            .map(|violation| (violation.line, violation.what))
            .collect()
    }

    #[test]
    fn trailing_blanks_are_named_where_people_write() {
        assert_eq!(judged("a.md", "a\nb \nc\t\nd\r\n").len(), 3);
        assert_eq!(judged("tests/transcripts/get.txt", "get a \n"), []);
    }

    #[test]
    fn files_end_with_one_newline() {
        assert_eq!(
            judged("a.toml", "a"),
            [(1, "does not end with one newline".to_owned())]
        );
        assert_eq!(judged("a.toml", "a\n\n").len(), 1);
        assert_eq!(judged("a.toml", "a\n"), []);
        assert_eq!(judged("a.toml", ""), []);
    }

    #[test]
    fn comments_keep_the_width_and_addresses_need_not() {
        let wide = "x".repeat(WIDTH);
        assert_eq!(
            judged("a.rs", &format!("// {wide}\n")),
            [(1, "103 columns".to_owned())]
        );
        assert_eq!(judged("a.rs", &format!("// https://{wide}\n")), []);
        assert_eq!(
            judged("a.rs", &format!("const A: &str = \"{wide}\";\n")),
            []
        );
        assert_eq!(judged("a.toml", &format!("# {wide}\n")).len(), 1);
        assert_eq!(judged("a.md", &format!("# {wide}\n")), []);
    }
}
