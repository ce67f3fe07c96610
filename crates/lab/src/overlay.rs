//! Applies the table `[quick]` of an experiment file: a change of the rest of the file.
//!
//! A table changes the table of the same name key by key. Tables of an array, such as `[[factor]]`,
//! change the one with the same `name`. Every other value replaces the value of its key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Changes `table` by `changes`.
pub(crate) fn apply<'i>(table: &mut DeTable<'i>, changes: DeTable<'i>) {
    for (key, change) in changes {
        match table.get_mut(&key) {
            Some(value) => replace(value, change),
            None => {
                table.insert(key, change);
            }
        }
    }
}

/// The index, among the changes in the table `quick` of `text`, of the table that is the `nth` with
/// that name once they are applied. None: it is not changed.
pub(crate) fn index_of_change(text: &str, name: &str, nth: usize) -> Option<usize> {
    let mut table = DeTable::parse(text).ok()?.into_inner();
    let DeValue::Table(changes) = table.remove("quick")?.into_inner() else {
        return None;
    };
    let Some(DeValue::Array(changed)) = changes.get(name).map(Spanned::get_ref) else {
        return Some(nth);
    };
    let changed: Vec<Option<String>> = changed
        .iter()
        .map(|it| name_of(it).map(str::to_owned))
        .collect();
    apply(&mut table, changes);
    let whole = table.get(name)?.get_ref().as_array()?;
    match name_of(whole.get(nth)?) {
        None => Some(nth),
        wanted => changed.iter().position(|it| it.as_deref() == wanted),
    }
}

fn replace<'i>(value: &mut Spanned<DeValue<'i>>, change: Spanned<DeValue<'i>>) {
    let span = change.span();
    match (value.get_mut(), change.into_inner()) {
        (DeValue::Table(table), DeValue::Table(changes)) => apply(table, changes),
        (DeValue::Array(values), DeValue::Array(changes)) if is_named(values, &changes) => {
            for change in changes {
                let name = name_of(&change).map(str::to_owned);
                match values.iter_mut().find(|it| name_of(it) == name.as_deref()) {
                    Some(value) => replace(value, change),
                    None => values.push(change),
                }
            }
        }
        (_, change) => *value = Spanned::new(span, change),
    }
}

/// Whether all values of both arrays are tables with a name.
fn is_named(values: &[Spanned<DeValue<'_>>], changes: &[Spanned<DeValue<'_>>]) -> bool {
    let mut all = values.iter().chain(changes);
    all.all(|it| name_of(it).is_some())
}

fn name_of<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a str> {
    value.get_ref().as_table()?.get("name")?.get_ref().as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(text: &str, changes: &str) -> toml::Table {
        let mut table = DeTable::parse(text).unwrap().into_inner();
        apply(&mut table, DeTable::parse(changes).unwrap().into_inner());
        let source = toml::Deserializer::from(Spanned::new(0..0, table));
        serde::Deserialize::deserialize(source).unwrap()
    }

    #[test]
    fn tables_change_key_by_key_and_named_tables_by_name() {
        let file = "seed = 1\n[load]\na = 1\nb = [1, 2]\n\
                    [[factor]]\nname = \"x\"\nvalues = [1, 2]\n[[factor]]\nname = \"y\"\n";
        let changes = "[load]\nb = [3]\n[[factor]]\nname = \"x\"\nvalues = [1]\n";
        let expected = "seed = 1\n[load]\na = 1\nb = [3]\n\
                        [[factor]]\nname = \"x\"\nvalues = [1]\n[[factor]]\nname = \"y\"\n";
        assert_eq!(applied(file, changes), expected.parse().unwrap());
    }

    #[test]
    fn a_changed_table_is_found_by_its_name() {
        let text = "[load]\na = 1\n[[factor]]\nname = \"x\"\n[[factor]]\nname = \"y\"\n\
                    [quick.load]\na = 2\n[[quick.factor]]\nname = \"z\"\n\
                    [[quick.factor]]\nname = \"y\"\n[[quick.cell]]\na = 1\n";
        let found = [0, 1, 2].map(|nth| index_of_change(text, "factor", nth));
        assert_eq!(found, [None, Some(1), Some(0)]);
        assert_eq!(index_of_change(text, "load", 0), Some(0));
        assert_eq!(index_of_change(text, "cell", 0), Some(0));
        assert_eq!(index_of_change("a = 1\n", "factor", 0), None);
    }
}
