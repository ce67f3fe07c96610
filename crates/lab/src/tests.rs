//! Tests of the public interface. They are modules of the unit tests: one program a crate.

pub(crate) mod fake;
mod gate;
mod lifecycle;
pub(crate) mod model;
mod program;
pub(crate) mod records;
pub(crate) mod repository;

#[track_caller]
pub(crate) fn assert_has(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(text.contains(part), "no `{part}` in\n{text}");
}
