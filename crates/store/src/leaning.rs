//! How eviction weighs what is new against what has been asked for again.
//!
//! Draining is S3-FIFO with two parts (`drain.rs`). How large the small part is, what becomes of
//! counts, and how long names are remembered, decides what it is good at: a small part of a
//! hundredth keeps what is asked for often through scans and loops, one of half of the memory
//! follows a popularity that moves; long memory for names finds what is popular anew in a memory
//! that is small beside it, and lets in too much where popularity stays. No one choice is within a
//! point of the best everywhere, so there are four, and which of them would have had most hits of
//! late is found out in miniature (`miniature.rs`).

/// One way to weigh.
#[derive(Debug)]
pub(crate) struct Leaning {
    /// What the statistics call it.
    pub(crate) name: &'static str,
    /// New items fill so many thousandths of all segments before the oldest of them goes first.
    pub(crate) small_thousandths: u64,
    /// New items are on trial in the small part, rather than in the main part at once.
    pub(crate) tries: bool,
    /// What stays in the main part loses one of its count, rather than all of it.
    pub(crate) keeps_count: bool,
    /// All names of what left count, rather than the younger half of them.
    pub(crate) remembers_long: bool,
}

/// All ways; the first is that of an empty store.
pub(crate) const LEANINGS: [Leaning; WAYS] = [
    Leaning {
        name: "frequent",
        small_thousandths: 10,
        tries: true,
        keeps_count: true,
        remembers_long: false,
    },
    Leaning {
        name: "returning",
        small_thousandths: 10,
        tries: true,
        keeps_count: true,
        remembers_long: true,
    },
    Leaning {
        name: "recent",
        small_thousandths: 500,
        tries: true,
        keeps_count: false,
        remembers_long: true,
    },
    // The clock of old: one queue, second chances.
    Leaning {
        name: "clock",
        small_thousandths: 0,
        tries: false,
        keeps_count: false,
        remembers_long: true,
    },
];

/// How many there are.
pub(crate) const WAYS: usize = 4;
