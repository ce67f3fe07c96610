//! One measurement of a world: how fast its clients are at a step, on a network with faults.
//!
//! Hosts take no time and links have no rate, so throughput is that of round trips and time-outs:
//! figures compare with each other only.

use measure::Histogram;
use middlebox::{Config, Faults, Step};
use thiserror::Error;
use workload::Ycsb;

use super::clients::ClientHost;
use super::{Load, NetworkFaults, World, WorldConfig};
use crate::limits::{
    OUTSTANDING_MAX, TRIAL_CLIENTS_MAX, TRIAL_EVENTS_MAX, TRIAL_KEYS_MAX, TRIAL_LEN_NS,
    TRIAL_OPERATIONS_MAX,
};

/// Memory besides that of new values.
const MEMORY_LEN: u64 = 64 << 20;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// How far the middlebox rewrites packets.
    pub step: Step,
    /// Its errors on purpose.
    pub errors: Faults,
    /// Its shared queue pairs at the memory node, with mapping.
    pub shared: usize,
    /// Number of clients.
    pub clients: u16,
    /// Operations of a client at once.
    pub outstanding: u32,
    /// Reads and writes.
    pub workload: Ycsb,
    /// Exponent of Zipf's law over the keys; 0: all are equally popular.
    pub theta: f64,
    /// Number of keys.
    pub keys: u32,
    /// Greatest length of a value in bytes; each has its own length, from half of this on.
    pub value_len: u32,
    /// What the network does.
    pub network: NetworkFaults,
    /// Time from one host to the next, in nanoseconds.
    pub hop_ns: u64,
    /// How long the memory node collects acknowledgements, in nanoseconds.
    pub acknowledge_ns: u64,
    /// Whether a client that loses its connection stops for good, as one does whose adapter has
    /// reported an error. Otherwise it connects again.
    pub stops_when_lost: bool,
    /// How many operations are measured, of all clients together.
    pub operations: u64,
    /// Where all chance comes from.
    pub seed: u64,
}

/// Why something cannot be measured. Messages continue "failed to measure: ".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TrialError {
    /// A number is out of bounds.
    #[error("`{name}` is {value}, not {least} to {most}")]
    Bounds {
        /// Which.
        name: &'static str,
        /// The number.
        value: u64,
        /// Its least value.
        least: u64,
        /// Its greatest value.
        most: u64,
    },
    /// There is no such world.
    #[error("{0}")]
    World(String),
    /// The keys were not all stored and read before the measurement.
    #[error("the keys were not stored within {} s of virtual time", TRIAL_LEN_NS / 1_000_000_000)]
    Unprepared,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Operations a second.
    pub total_rps: f64,
    /// From the call of an operation to its answer, in nanoseconds.
    pub reads: Histogram,
    /// The same of writes.
    pub writes: Histogram,
    /// Compare-and-swaps that linked a node, of all. None: there were none.
    pub swap_success: Option<f64>,
    /// Bytes that clients have sent and received, with all headers, for each operation.
    pub bytes: f64,
    /// Retransmissions of clients that came to the middlebox, for each operation.
    pub retransmissions: f64,
    /// Operations that took as long as a client's time-out, or longer, of all that were answered.
    pub timed_out: f64,
    /// Operations that have ended with a result, of those that were to be measured. Less than 1:
    /// the clients have stopped, or the measurement was cut off.
    pub answered: f64,
    /// Connections that clients have lost.
    pub lost: u64,
    /// Clients that have stopped, of all.
    pub stopped: f64,
    /// Keys whose history is not linearizable.
    pub wrong_keys: usize,
    /// Keys whose history is too concurrent to decide.
    pub undecided_keys: usize,
}

impl Trial {
    /// # Errors
    /// A number is out of bounds.
    pub fn check(&self) -> Result<(), TrialError> {
        let bounds = [
            (
                "threads",
                u64::from(self.clients),
                1,
                u64::from(TRIAL_CLIENTS_MAX),
            ),
            (
                "outstanding",
                self.outstanding.into(),
                1,
                OUTSTANDING_MAX.into(),
            ),
            ("keys", self.keys.into(), 1, TRIAL_KEYS_MAX.into()),
            ("value-bytes", self.value_len.into(), 8, 4096),
            (
                "operations",
                self.operations,
                self.clients.into(),
                TRIAL_OPERATIONS_MAX,
            ),
            ("hop-us", self.hop_ns / 1000, 0, 1_000_000),
            ("acknowledge-us", self.acknowledge_ns / 1000, 0, 1_000_000),
            ("reorder-us", self.network.late_ns / 1000, 0, 1_000_000),
        ];
        for (name, value, least, most) in bounds {
            if !(least..=most).contains(&value) {
                return Err(TrialError::Bounds {
                    name,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }

    /// Stores all keys, lets each client read each of them over a network without faults, and
    /// then measures.
    ///
    /// # Errors
    /// A number is out of bounds, or the keys could not be stored.
    pub fn run(&self) -> Result<Measured, TrialError> {
        self.check()?;
        let load = Load {
            operations: 0,
            outstanding: self.outstanding as usize,
            keys: self.keys,
            theta: self.theta,
            value_len: self.value_len as usize,
            writes_percent: (self.workload.update_share() * 100.0).round() as u64,
            others_percent: 0,
            expired_percent: 0,
        };
        let mut world = World::new(self.world(load)).map_err(TrialError::World)?;
        if !world.prepare(TRIAL_LEN_NS, TRIAL_EVENTS_MAX) {
            return Err(TrialError::Unprepared);
        }
        world.set_faults(self.network);
        if self.stops_when_lost {
            world.stop_lost_clients();
        }
        Ok(self.measure(&mut world, load))
    }

    fn world(&self, load: Load) -> WorldConfig {
        let mut middlebox = Config::new(self.step, 1);
        middlebox.faults = self.errors;
        middlebox.shared = self.shared;
        let stored = u64::from(self.keys) + self.operations;
        WorldConfig {
            clients: self.clients,
            load,
            middlebox,
            memory_len: MEMORY_LEN + stored * 2 * u64::from(self.value_len),
            slab_len: 65_536,
            heartbeat_ns: 20_000_000,
            advance_ns: 5_000_000,
            sweep_ns: 0,
            acknowledge_ns: self.acknowledge_ns,
            faults: NetworkFaults::default(),
            hop_ns: self.hop_ns,
            seed: self.seed,
        }
    }

    /// Measures until so many operations have ended: a client that waits delays the others by
    /// nothing, as in a measurement of a fixed length.
    fn measure(&self, world: &mut World, load: Load) -> Measured {
        let start_ns = world.now_ns();
        let (before, passed) = (world.client_counters(), world.middlebox_counters());
        let completed =
            |clients: &[ClientHost]| -> u64 { clients.iter().map(|host| host.completed).sum() };
        let target = completed(world.clients()) + self.operations;
        world.set_load(Load {
            operations: self.operations,
            ..load
        });
        world.run_until(start_ns + TRIAL_LEN_NS, TRIAL_EVENTS_MAX, |clients| {
            completed(clients) >= target || clients.iter().all(ClientHost::is_done)
        });
        let seconds = (world.now_ns() - start_ns).max(1) as f64 / 1e9;
        let counted = world.client_counters().since(&before);
        let repeated = world.middlebox_counters().retransmitted - passed.retransmitted;
        let stopped = world
            .clients()
            .iter()
            .filter(|host| host.has_stopped)
            .count();
        let [reads, writes] = world.histories().latencies(start_ns);
        let timeout_ns = pool::ChannelConfig::default().retries.timeout_ns;
        let quick = reads.count_to(timeout_ns - 1) + writes.count_to(timeout_ns - 1);
        let answered = (reads.len() + writes.len()).max(1) as f64;
        let completed = counted.completed.max(1) as f64;
        let won = counted.swaps_won as f64;
        let (wrong_keys, undecided_keys) = world.histories().count_rejections();
        Measured {
            total_rps: counted.completed as f64 / seconds,
            timed_out: 1.0 - quick as f64 / answered,
            reads,
            writes,
            swap_success: (counted.swaps > 0).then(|| won / counted.swaps as f64),
            bytes: (counted.sent_bytes + counted.received_bytes) as f64 / completed,
            retransmissions: repeated as f64 / completed,
            answered: counted.completed as f64 / self.operations as f64,
            lost: counted.reconnects,
            stopped: stopped as f64 / f64::from(self.clients),
            wrong_keys,
            undecided_keys,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(step: Step) -> Trial {
        Trial {
            step,
            errors: Faults::default(),
            shared: 8,
            clients: 4,
            outstanding: 2,
            workload: Ycsb::A,
            theta: 0.75,
            keys: 8,
            value_len: 256,
            network: NetworkFaults::default(),
            hop_ns: 1000,
            acknowledge_ns: 0,
            stops_when_lost: false,
            operations: 800,
            seed: 3,
        }
    }

    #[test]
    fn every_operation_is_answered_and_right_at_each_step() {
        for step in Step::ALL {
            let measured = trial(step).run().unwrap();
            assert!((1.0..1.1).contains(&measured.answered), "{step:?}");
            assert!((800..880).contains(&(measured.reads.len() + measured.writes.len())));
            assert_eq!((measured.wrong_keys, measured.undecided_keys), (0, 0));
            assert_eq!((measured.lost, measured.timed_out), (0, 0.0));
            assert!(measured.swap_success.unwrap() > 0.3);
            // A write sends half of 256 bytes at least, and a read receives as many.
            assert!(measured.bytes > 256.0);
        }
    }

    #[test]
    fn losses_reordering_and_copies_change_the_figures_and_no_answer() {
        let good = trial(Step::Conversion).run().unwrap();
        assert_eq!(good.retransmissions, 0.0);
        for network in [
            NetworkFaults {
                lost_ppm: 20_000,
                ..NetworkFaults::default()
            },
            NetworkFaults {
                repeated_ppm: 50_000,
                ..NetworkFaults::default()
            },
            NetworkFaults {
                late_ppm: 50_000,
                late_ns: 20_000,
                ..NetworkFaults::default()
            },
        ] {
            let measured = Trial {
                network,
                ..trial(Step::Conversion)
            }
            .run()
            .unwrap();
            assert!(measured.answered >= 1.0 && measured.wrong_keys == 0);
            assert!(measured.retransmissions > 0.0, "{network:?}");
        }
    }

    #[test]
    fn clients_that_do_not_connect_again_stop_where_all_is_lost() {
        let network = NetworkFaults {
            lost_ppm: 1_000_000,
            ..NetworkFaults::default()
        };
        let trial = Trial {
            network,
            stops_when_lost: true,
            ..trial(Step::Mapping)
        };
        let measured = trial.run().unwrap();
        assert_eq!((measured.stopped, measured.answered), (1.0, 0.0));
        assert_eq!(measured.lost, 4);
    }

    #[test]
    fn a_number_out_of_bounds_is_refused() {
        let error = Trial {
            keys: 0,
            ..trial(Step::Write)
        }
        .run()
        .unwrap_err();
        assert!(error.to_string().starts_with("`keys` is 0, not 1 to "));
    }
}
