//! What can be chosen about the log.

/// The shape of the log.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogShape {
    /// Segments of the whole memory.
    pub segments: u32,
    /// Share of the segments that the small part may fill before its oldest is drained first.
    pub small_share: f64,
    /// So often asked for, a record of the small part moves to the main part instead of leaving.
    pub moves_at: u8,
    /// It takes what it was asked for beyond that along, instead of beginning at 0.
    pub moves_with_count: bool,
    /// The counter stops here: 3 in two bits.
    pub frequency_max: u8,
    /// Share of the memory that fingerprints of records that left the small part take.
    pub ghost_share: f64,
    /// Bytes of a fingerprint, 1 or 2.
    pub fingerprint_bytes: u32,
    /// Requests that make a second, in which only the first of a record counts; 0: all count.
    pub second: u32,
    /// A record's arrival is the request that counts in its second.
    pub arrival_counts: bool,
    /// An overwritten record begins anew in the small part, whose dead bytes stay shorter, instead
    /// of staying in the part it was in.
    pub overwritten_to_small: bool,
    /// Share of dead bytes from which a segment of the main part is emptied out of its turn, and
    /// all that lives in it copied. Above 1: never.
    pub compacts_at: f64,
}

impl LogShape {
    /// As the store had it before its eviction leant: it has four shapes now, chosen as it runs,
    /// and what is overwritten stays in its part.
    pub const DEFAULT: Self = Self {
        segments: 1024,
        small_share: 0.05,
        moves_at: 1,
        moves_with_count: true,
        frequency_max: 3,
        ghost_share: 1.0 / 256.0,
        fingerprint_bytes: 2,
        second: 100_000,
        arrival_counts: false,
        overwritten_to_small: true,
        compacts_at: 0.2,
    };
}
