//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod answer;
mod browser;
mod compare;
mod conversion;
mod edge_cases;
mod figures;
mod gallery;
mod general;
mod general_run;
mod history;
mod illustrated;
mod kinds;
mod page;
mod published;
mod reading;
mod settings;
mod stack;
mod summary;
mod synthetic;
mod target;
mod zipped;
