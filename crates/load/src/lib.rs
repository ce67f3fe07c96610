//! Offered load: schedule to connections to records.

pub mod summary;
