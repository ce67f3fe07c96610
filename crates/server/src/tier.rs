//! The tier below the store: its files and its threads.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;

use ::tier::{Device, FileDevice, Readers, Rules, Statistics, Stopped, Tier};
use session::StatWriter;
use store::Store;

use crate::error::Error;

/// A file of the tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierFile {
    /// The path of a file, which is created if it is not there, or of a block device.
    pub path: PathBuf,
    /// The bytes to use.
    pub bytes: u64,
}

/// The tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierConfig {
    /// Its files.
    pub files: Vec<TierFile>,
    /// Its rules.
    pub rules: Rules,
    /// Number of threads that read.
    pub readers: usize,
}

/// A tier whose files are open.
pub(crate) struct OpenTier {
    pub(crate) tier: Arc<Tier>,
    /// Number of threads that read.
    readers: usize,
    /// The seed with which keys are hashed.
    pub(crate) hash_seed: u64,
    /// Second 0 of the server's clock, as Unix time.
    epoch_unix_s: u64,
    /// The file of the index between two runs. `None`: there is no place for one.
    index_path: Option<PathBuf>,
}

/// A tier with its threads.
pub(crate) struct RunningTier {
    open: OpenTier,
    pub(crate) readers: Arc<Readers>,
    store: Arc<Store>,
}

/// Opens the files, as the user who serves. Continues with the items of an earlier process that
/// stopped in order.
pub(crate) fn open(
    config: &TierConfig,
    hash_seed: u64,
    epoch_unix_s: u64,
    say: &mut dyn FnMut(&str),
) -> Result<OpenTier, Error> {
    let mut devices: Vec<(Box<dyn Device>, u64)> = Vec::new();
    let mut was_used = false;
    for file in &config.files {
        let device =
            FileDevice::open(&file.path, file.bytes).map_err(|source| Error::TierFile {
                path: file.path.clone(),
                source,
            })?;
        was_used |= device.was_marked();
        devices.push((Box::new(device), file.bytes));
    }
    // The standard library seeds its hashers with system randomness.
    let mut tier = Tier::new(config.rules, RandomState::new().hash_one(0), devices)?;
    let index_path = config.files.first().and_then(index_path);
    let mut seed = hash_seed;
    if let Some(path) = &index_path {
        let is_saved = path.exists();
        match tier.continue_saved(path, epoch_unix_s) {
            Ok(None) if is_saved => say(&format!(
                "the tier starts empty: {} is damaged, or of files of other sizes",
                path.display()
            )),
            Ok(None) if was_used => say(
                "the tier starts empty: its files were used before, but no index of them was saved",
            ),
            Ok(None) => {}
            Ok(Some(continued)) => {
                seed = continued.hash_seed;
                say(&format!(
                    "the tier continues with {} items",
                    continued.objects
                ));
            }
            Err(source) => {
                let path = path.clone();
                return Err(Error::TierFile { path, source });
            }
        }
    }
    let statistics = tier.statistics();
    say(&format!(
        "the tier has {} MiB; its index and buffers take {} MiB of memory besides -m",
        (statistics.segments * statistics.segment_bytes) >> 20,
        statistics.memory_bytes >> 20
    ));
    Ok(OpenTier {
        tier: Arc::new(tier),
        readers: config.readers.max(1),
        hash_seed: seed,
        epoch_unix_s,
        index_path,
    })
}

/// The file of the index beside the first file of the tier. A block device has no place beside it
/// that lasts.
fn index_path(file: &TierFile) -> Option<PathBuf> {
    if !file.path.metadata().is_ok_and(|it| it.is_file()) {
        return None;
    }
    let mut path = file.path.clone().into_os_string();
    path.push(".index");
    Some(path.into())
}

impl OpenTier {
    /// Starts the threads.
    pub(crate) fn start(self, store: &Arc<Store>) -> Result<RunningTier, Error> {
        let readers = Readers::start(&self.tier, self.readers).map_err(Error::Start)?;
        Ok(RunningTier {
            open: self,
            readers: Arc::new(readers),
            store: Arc::clone(store),
        })
    }
}

impl RunningTier {
    /// Keeps the items for the next start, after the last worker has ended.
    pub(crate) fn stop(self, say: &mut dyn FnMut(&str)) {
        let OpenTier {
            tier,
            hash_seed,
            epoch_unix_s,
            index_path,
            ..
        } = self.open;
        if !self.readers.finish() {
            return;
        }
        let (Some(path), Some(generation)) = (index_path, self.store.final_generation()) else {
            return;
        };
        let stopped = Stopped {
            hash_seed,
            epoch_unix_s,
            generation,
        };
        match tier.save(&path, &stopped) {
            Ok(()) => {}
            Err(error) => say(&format!(
                "the items of the tier are lost: failed to write {}: {error}",
                path.display()
            )),
        }
    }
}

/// Warning and remedy, if many items are lost because the index is full although the files have
/// space. A few are lost by chance: all places that a key may have can be taken.
pub(crate) fn index_problem(statistics: &Statistics) -> Option<String> {
    let &Statistics {
        objects_displaced: lost,
        objects_used,
        bytes_used,
        ..
    } = statistics;
    let mean = (bytes_used / objects_used.max(1)).max(u64::from(::tier::limits::ITEM_BYTES_MIN));
    (lost > objects_used / 100).then(|| {
        format!(
            "the index of the tier is full and {lost} items are lost: they are smaller than \
             --tier-item-size says (start with --tier-item-size {mean})"
        )
    })
}

/// Open files that the tier needs.
pub(crate) fn files_needed(config: Option<&TierConfig>) -> u64 {
    config.map_or(0, |config| config.files.len() as u64)
}

/// Writes the statistics of memcached's extstore for what the tier does not have: pressure to write
/// before items are evicted, items that are locked, and pages for items that are renewed.
fn write_constant_stats(out: &mut dyn StatWriter) {
    out.text(b"extstore_memory_pressure", b"0.00");
    for name in ["lost", "resc_cold", "resc_old"] {
        out.number(format!("extstore_compact_{name}").as_bytes(), 0);
    }
}

/// Writes the statistics, first those of memcached's extstore. They are counts since the start,
/// also after `stats reset`.
pub(crate) fn write_stats(tier: &Tier, out: &mut dyn StatWriter) {
    let Statistics {
        segments_opened,
        segments_reused,
        segments_evicted,
        segments_failed,
        segments_waiting,
        segments_used,
        segments,
        segment_bytes,
        objects_evicted,
        bytes_evicted,
        objects_displaced,
        objects_read,
        bytes_read,
        objects_written,
        bytes_written,
        objects_renewed,
        objects_kept,
        objects_used,
        bytes_used,
        skipped,
        dropped_too_large,
        dropped_write_rate,
        dropped_write_behind,
        reads_damaged,
        reads_missed,
        reads_refused,
        reads_cancelled,
        reads_waiting,
        reads_bytes,
        restored,
        not_restored,
        memory_bytes,
    } = tier.statistics();
    let read = objects_read + reads_missed + reads_damaged;
    write_constant_stats(out);
    for (name, value) in [
        ("get_extstore", read),
        ("get_aborted_extstore", reads_cancelled),
        ("get_oom_extstore", reads_refused),
        ("recache_from_extstore", restored),
        ("miss_from_extstore", reads_missed),
        ("badcrc_from_extstore", reads_damaged),
        ("extstore_compact_rescues", objects_renewed),
        ("extstore_compact_skipped", objects_kept),
        ("extstore_page_allocs", segments_opened),
        ("extstore_page_evictions", segments_evicted),
        ("extstore_page_reclaims", segments_reused),
        (
            "extstore_pages_free",
            segments.saturating_sub(segments_used),
        ),
        ("extstore_pages_used", segments_used),
        ("extstore_objects_evicted", objects_evicted),
        ("extstore_objects_read", objects_read),
        ("extstore_objects_written", objects_written),
        ("extstore_objects_used", objects_used),
        ("extstore_bytes_evicted", bytes_evicted),
        ("extstore_bytes_written", bytes_written),
        ("extstore_bytes_read", bytes_read),
        ("extstore_bytes_used", bytes_used),
        (
            "extstore_bytes_fragmented",
            (segments_used * segment_bytes).saturating_sub(bytes_used),
        ),
        ("extstore_limit_maxbytes", segments * segment_bytes),
        ("extstore_io_queue", reads_waiting),
        ("tier_memory_bytes", memory_bytes),
        ("tier_read_buffer_bytes", reads_bytes),
        ("tier_segments_failed", segments_failed),
        ("tier_segments_waiting", segments_waiting),
        ("tier_objects_displaced", objects_displaced),
        ("tier_skipped", skipped),
        ("tier_dropped_too_large", dropped_too_large),
        ("tier_dropped_write_rate", dropped_write_rate),
        ("tier_dropped_write_behind", dropped_write_behind),
        ("tier_not_restored", not_restored),
    ] {
        out.number(name.as_bytes(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_index_is_a_problem_with_its_remedy() {
        let mut statistics = Statistics {
            objects_used: 10,
            bytes_used: 1360,
            ..Statistics::default()
        };
        assert_eq!(index_problem(&statistics), None);
        statistics.objects_displaced = 7;
        let line = index_problem(&statistics).unwrap_or_default();
        assert!(
            line.contains("7 items") && line.contains("--tier-item-size 136)"),
            "{line}"
        );
        statistics.objects_used = 700;
        assert_eq!(index_problem(&statistics), None, "by chance");
    }
}
