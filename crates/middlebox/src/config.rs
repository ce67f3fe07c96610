//! What a middlebox does, and how long it waits.

use std::ops::Range;

use thiserror::Error;

use crate::limits::{ADDRESSES, CHAINS, SHARED_MAX};

/// How far packets are rewritten. Each step includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Packets are forwarded.
    Forward,
    /// Compare-and-swap operations go to the tail of their chain.
    Write,
    /// READs go to the tail of their chain.
    Read,
    /// All operations of a chain use one queue pair of the memory node.
    Mapping,
    /// Compare-and-swap operations become WRITEs, whose acknowledgements become atomic ones.
    Conversion,
}

impl Step {
    /// All, in their order.
    pub const ALL: [Self; 5] = [
        Self::Forward,
        Self::Write,
        Self::Read,
        Self::Mapping,
        Self::Conversion,
    ];
}

/// What is done with addresses of READs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLookup {
    /// The chain is looked up, and the address set to its tail.
    Steer,
    /// The chain is looked up, and the address left as it is: the cost without the effect.
    LookUp,
    /// Nothing is looked up. With mapping, these READs use the queue pair of their connection.
    Off,
}

/// Which parts of the rewriting are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is described at its step")]
pub struct Switches {
    pub write_steering: bool,
    pub read_steering: bool,
    pub mapping: bool,
    pub conversion: bool,
}

impl From<Step> for Switches {
    fn from(step: Step) -> Self {
        Self {
            write_steering: step >= Step::Write,
            read_steering: step >= Step::Read,
            mapping: step >= Step::Mapping,
            conversion: step >= Step::Conversion,
        }
    }
}

/// The settings of a middlebox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How far packets are rewritten.
    pub switches: Switches,
    /// Steer only that many chains, those with most operations. All, if there is no number.
    pub hottest: Option<usize>,
    /// What is done with addresses of READs.
    pub reads: ReadLookup,
    /// Number of shared queue pairs at each memory node, 1 to [`SHARED_MAX`]. A later start must
    /// not have fewer: what an earlier one has sent on others is not fenced.
    pub shared: usize,
    /// Greater at each start, and by more than the queue pairs that were lost in between: the
    /// memory node destroys shared queue pairs of an earlier start. Seconds of Unix time will do.
    pub instance: u32,
    /// The keys of the memory.
    pub keys: Keys,
    /// The memory of each node. Operations outside are refused with mapping, and never steered to.
    pub memory: Range<u64>,
    /// Which part of the chains this middlebox serves.
    pub shard: Shard,
    /// Chains that are known, at most.
    pub chains: usize,
    /// Addresses that are known, at most. Rounded up to a multiple of eight, and a power of two.
    pub addresses: usize,
    /// How long an unanswered compare-and-swap holds others of its chain back, without mapping.
    pub hold_max_ns: u64,
    /// After how long without progress a shared queue pair sends again.
    pub resend_ns: u64,
    /// How often it does before it counts as dead.
    pub resends_max: u32,
    /// Shortcuts of the published prototype, and other errors, for experiments that show what they
    /// break.
    pub faults: Faults,
}

/// The keys (rkeys) of the memory of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// That of operations that may be rewritten: appending to chains, READs and WRITEs of nodes.
    pub steerable: u32,
    /// That of operations that go where they were sent.
    pub exact: u32,
}

/// Part of the chains: those whose hash has this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The remainder.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
}

impl Shard {
    /// All chains.
    pub const ALL: Self = Self { index: 0, count: 1 };

    /// Whether a chain belongs to it.
    pub fn has(self, chain: u64) -> bool {
        self.count == 1 || Self::of(chain, self.count) == self.index
    }

    /// The shard of a chain, if there are `count`. Clients choose their queue pair by it.
    pub const fn of(chain: u64, count: u32) -> u32 {
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4), scaled.
        let hash = chain.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * count as u64) >> 32) as u32
    }
}

/// Errors on purpose. All are off in a middlebox that answers correctly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Each compare-and-swap is answered as successful (prototype).
    pub always_succeeded: bool,
    /// READs are steered to nodes that are not linked yet (prototype).
    pub reads_unlinked: bool,
    /// Conversion is allowed without mapping.
    pub converts_unmapped: bool,
    /// What was lost on a shared queue pair is sent again for one of its owners only (prototype).
    pub resends_one_owner: bool,
    /// A coalesced acknowledgement is passed to the owner of the last packet only, and what a
    /// response acknowledges before it to none (prototype without injection).
    pub injects_no_acks: bool,
    /// Conditional operations are steered too (prototype, which has no others).
    pub steers_exact: bool,
    /// The retransmission of a compare-and-swap is steered anew.
    pub steers_again: bool,
    /// An exact compare-and-swap on its way does not keep others from being predicted.
    pub ignores_exact: bool,
    /// A compare-and-swap that closes a chain is no barrier, and its success ends no ownership.
    pub ignores_closing: bool,
    /// The compare operand is not adapted to the generation of the target: any original value with
    /// address zero counts as success.
    pub ignores_generation: bool,
    /// Packets of unknown queue pairs pass although mapping is on.
    pub passes_unknown: bool,
    /// A client that connects again does not wait for its old operations.
    pub connects_at_once: bool,
    /// Corrupted packets are processed as if they were intact.
    pub trusts_corrupted: bool,
}

/// Why a configuration is refused. Messages continue "failed to start the middlebox: ".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Operations of a chain would reach the memory node on several queue pairs, in any order, and
    /// a WRITE cannot fail as a compare-and-swap does.
    #[error("conversion to WRITEs needs one queue pair for each chain, so the step before it")]
    ConversionWithoutMapping,
    /// The number of shared queue pairs is out of bounds.
    #[error("{0} shared queue pairs are not between 1 and {SHARED_MAX}")]
    Shared(usize),
    /// The shard does not exist.
    #[error("shard {} is not below {}", .0.index, .0.count)]
    Shard(Shard),
    /// There is no space for chains or addresses, or for too many.
    #[error("{0} entries are not between 1 and 2^30")]
    Entries(usize),
}

impl Config {
    /// The settings for a step; `instance` differs at each start.
    pub fn new(step: Step, instance: u32) -> Self {
        Self {
            switches: step.into(),
            hottest: None,
            reads: ReadLookup::Steer,
            shared: 64,
            instance,
            keys: Keys {
                steerable: 0x5354,
                exact: 0x4558,
            },
            memory: 0..u64::MAX,
            shard: Shard::ALL,
            chains: CHAINS,
            addresses: ADDRESSES,
            hold_max_ns: 50_000_000,
            resend_ns: 500_000,
            resends_max: 64,
            faults: Faults::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// They contradict each other, or a number is out of bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Switches {
            mapping,
            conversion,
            ..
        } = self.switches;
        if conversion && !mapping && !self.faults.converts_unmapped {
            return Err(ConfigError::ConversionWithoutMapping);
        }
        if self.shared == 0 || self.shared > SHARED_MAX {
            return Err(ConfigError::Shared(self.shared));
        }
        if self.shard.index >= self.shard.count {
            return Err(ConfigError::Shard(self.shard));
        }
        for entries in [self.chains, self.addresses] {
            if entries == 0 || entries > 1 << 30 {
                return Err(ConfigError::Entries(entries));
            }
        }
        Ok(())
    }
}
