//! Tests of the public interface. They are modules of the unit tests: one program a crate.

mod answer;
mod browser;
mod compare;
mod edge_cases;
mod figures;
mod gallery;
mod general;
mod general_run;
mod history;
mod illustrated;
mod kinds;
mod ladder;
mod published;
mod reading;
mod stack;
mod target;
mod zipped;
