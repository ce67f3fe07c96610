//! Run folder to tables, figures and one self-contained page.
//!
//! This room reads run folders and nothing else: what it needs to know stands in [`folder`],
//! which is also what the laboratory writes by. It never measures, and it never invents: a trial
//! that is missing is drawn as missing.

pub mod folder;
