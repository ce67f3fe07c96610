//! Which memory a peer may access: keys, bounds and permissions.

use thiserror::Error;

use crate::limits::REGIONS_MAX;

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// Compare-and-swap, fetch-and-add.
    Atomic,
}

/// A range of memory that has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The key (rkey).
    pub key: u32,
    /// Address of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// READ is allowed.
    pub may_read: bool,
    /// WRITE is allowed.
    pub may_write: bool,
    /// Atomic operations are allowed.
    pub may_change_atomically: bool,
}

/// Why a region cannot be added. Messages continue "failed to add a memory region: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RegionsError {
    /// There are [`REGIONS_MAX`] regions.
    #[error("there are {REGIONS_MAX} already")]
    Full,
    /// Another region has this key.
    #[error("its key {0:#x} is that of another")]
    Key(u32),
    /// The region reaches beyond the last address.
    #[error("it ends beyond the last address")]
    Bounds,
}

/// The regions of a responder, at most [`REGIONS_MAX`].
#[derive(Clone, Debug, Default)]
pub struct Regions {
    regions: Vec<Region>,
}

impl Regions {
    /// Adds a region.
    ///
    /// # Errors
    /// There are too many, the key is taken, or the region has no end.
    pub fn add(&mut self, region: Region) -> Result<(), RegionsError> {
        if self.regions.len() == REGIONS_MAX {
            return Err(RegionsError::Full);
        }
        if self.regions.iter().any(|other| other.key == region.key) {
            return Err(RegionsError::Key(region.key));
        }
        if region.start.checked_add(region.len).is_none() {
            return Err(RegionsError::Bounds);
        }
        self.regions.push(region);
        Ok(())
    }

    /// Removes the region with this key; false if there is none.
    pub fn remove(&mut self, key: u32) -> bool {
        let len = self.regions.len();
        self.regions.retain(|region| region.key != key);
        self.regions.len() < len
    }

    /// Whether the key allows this access to these bytes.
    pub fn allow(&self, key: u32, address: u64, len: u64, access: Access) -> bool {
        self.regions.iter().any(|region| {
            let is_permitted = match access {
                Access::Read => region.may_read,
                Access::Write => region.may_write,
                Access::Atomic => region.may_change_atomically,
            };
            let end = address.checked_add(len);
            let is_inside =
                address >= region.start && end.is_some_and(|end| end <= region.start + region.len);
            region.key == key && is_permitted && is_inside
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        key: 7,
        start: 100,
        len: 50,
        may_read: true,
        may_write: true,
        may_change_atomically: false,
    };

    #[test]
    fn only_permitted_access_within_the_bounds_is_allowed() {
        let mut regions = Regions::default();
        regions.add(REGION).unwrap();
        assert!(regions.allow(7, 100, 50, Access::Read));
        assert!(regions.allow(7, 149, 1, Access::Write));
        assert!(!regions.allow(7, 99, 2, Access::Read));
        assert!(!regions.allow(7, 149, 2, Access::Read));
        assert!(!regions.allow(7, u64::MAX, 2, Access::Read));
        assert!(!regions.allow(7, 104, 8, Access::Atomic));
        assert!(!regions.allow(8, 100, 1, Access::Read));
        assert!(regions.remove(7) && !regions.remove(7));
        assert!(!regions.allow(7, 100, 50, Access::Read));
    }

    #[test]
    fn regions_have_bounds() {
        let mut regions = Regions::default();
        for key in 0..REGIONS_MAX as u32 {
            assert_eq!(regions.add(Region { key, ..REGION }), Ok(()));
        }
        assert_eq!(regions.add(REGION), Err(RegionsError::Full));
        assert!(regions.remove(0));
        assert_eq!(regions.add(REGION), Err(RegionsError::Key(7)));
        let start = u64::MAX - 49;
        let endless = Region {
            key: 0,
            start,
            ..REGION
        };
        assert_eq!(regions.add(endless), Err(RegionsError::Bounds));
    }
}
