//! Run folders in, reports out: what a reader of a report would notice.

mod browser;
mod figures;
mod page;
mod reading;
mod summary;
mod synthetic;
