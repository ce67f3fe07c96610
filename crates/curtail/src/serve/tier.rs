//! `--tier` and memcached's keys `ext_…`: the files of the tier, and its rules.

use std::path::PathBuf;

use anyhow::{Context, bail};

use server::{TierConfig, TierFile, TierRules, tier_limits};

use super::Flags;

/// What is needed where a file with a size is.
pub(super) const FILE_NEEDED: &str = "FILE:SIZE is needed, such as /mnt/cache:10G; SIZE has a unit, \
                                      k, m, g or t, and is at least 4m";
const _: () = {
    let segment_min = *tier_limits::SEGMENT_BYTES.start();
    assert!(tier_limits::SEGMENTS_MIN * segment_min == 4 * MIB);
};

const MIB: u64 = 1 << 20;

/// The files of one `--tier`. For the parser of flags this is one value.
pub(super) type TierFiles = Vec<TierFile>;

/// A file with its size, as in memcached: the size has a unit, which is binary.
pub(super) fn file(text: &str) -> anyhow::Result<TierFile> {
    let parsed = text.rsplit_once(':').and_then(|(path, size)| {
        let unit = size.chars().next_back()?;
        let shift = match unit.to_ascii_lowercase() {
            'k' => 10,
            'm' => 20,
            'g' => 30,
            't' => 40,
            'p' => 50,
            _ => return None,
        };
        let number: u64 = size[..size.len() - 1].parse().ok()?;
        let bytes = number.checked_mul(1 << shift)?;
        let path = PathBuf::from(path);
        (bytes > 0 && !path.as_os_str().is_empty()).then_some(TierFile { path, bytes })
    });
    parsed.context(FILE_NEEDED)
}

/// A list of files with their sizes.
pub(super) fn files(text: &str) -> Result<TierFiles, String> {
    let files = text.split(',').map(file).collect::<anyhow::Result<_>>();
    files.map_err(|error| error.to_string())
}

impl Flags {
    /// The tier. `None` if it has no file.
    pub(super) fn tier(&self, keys: &[(&str, String)]) -> anyhow::Result<Option<TierConfig>> {
        let mut config = TierConfig {
            files: self.tier.clone().unwrap_or_default(),
            rules: TierRules {
                write_rate: self.tier_write_rate,
                item_bytes: self.tier_item_size,
                ..TierRules::default()
            },
            readers: tier_limits::READERS_DEFAULT,
        };
        for (name, value) in keys {
            if *name == "ext_path" {
                config.files.push(file(value)?);
                continue;
            }
            // The form of the key has been checked.
            let number: u32 = value.parse()?;
            match *name {
                "ext_page_size" => config.rules.segment_bytes = Some(u64::from(number) * MIB),
                "ext_threads" => config.readers = number as usize,
                "ext_item_size" => config.rules.value_min = number,
                "ext_low_ttl" => config.rules.ttl_min_s = number,
                _ => {}
            }
        }
        for (at, file) in config.files.iter().enumerate() {
            if config.files[..at]
                .iter()
                .any(|other| other.path == file.path)
            {
                bail!("--tier {}: the file is given twice", file.path.display());
            }
        }
        Ok(Some(config).filter(|config| !config.files.is_empty()))
    }
}
