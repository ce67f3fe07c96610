//! `studies/peers`: benchmarks beside other caches and schedulers, a workspace of its own.

/// Its manifest.
pub(crate) const MANIFEST: &str = "studies/peers/Cargo.toml";
