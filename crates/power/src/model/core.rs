//! One core and its queue.

use measure::Histogram;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::machine::{CState, IdleState};
use super::system::{IdlePolicy, System};
use super::{Machine, Setting};
use crate::limits::IDLE_HISTORY;

/// Where the time of a core goes, and what happened on it.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) work_ns: f64,
    pub(super) exit_ns: f64,
    pub(super) halt_ns: f64,
    pub(super) deep_ns: f64,
    /// Work that a core does while it polls an empty queue.
    pub(super) poll_ns: f64,
    pub(super) wakes: u64,
    pub(super) requests: u64,
    /// Sum over interrupts of the packets that waited at the end of the exit.
    pub(super) batch_sum: u64,
    pub(super) elapsed_ns: f64,
}

/// A core under its own part of the load.
pub(super) struct Core<'a> {
    machine: &'a Machine,
    system: &'a System,
    setting: Setting,
    gap_ns: f64,
    random: Xoshiro256PlusPlus,
    idle: Predictor,
    /// The next packet.
    arrival_ns: f64,
    interrupted_ns: f64,
    now_ns: f64,
    warm_ns: f64,
    began_ns: f64,
    is_warm: bool,
    record: Record,
}

impl<'a> Core<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        system: &'a System,
        setting: Setting,
        rate_rps: f64,
        random: Xoshiro256PlusPlus,
    ) -> Self {
        let mut core = Self {
            machine,
            system,
            setting,
            gap_ns: 1e9 / rate_rps,
            random,
            idle: Predictor::default(),
            arrival_ns: 0.0,
            interrupted_ns: f64::NEG_INFINITY,
            now_ns: 0.0,
            warm_ns: 0.0,
            began_ns: 0.0,
            is_warm: false,
            record: Record::default(),
        };
        core.next_arrival();
        core
    }

    /// Simulates the packets that arrive before `end_ns`. The first tenth of the time warms up.
    pub(super) fn run(
        mut self,
        end_ns: f64,
        latency: &mut Histogram,
        idle: &mut Histogram,
    ) -> Record {
        self.warm_ns = end_ns / 10.0;
        while self.arrival_ns < end_ns {
            self.warm_up();
            if self.setting.is_polling {
                self.record.poll_ns += (self.arrival_ns - self.now_ns).max(0.0);
                self.now_ns = self.now_ns.max(self.arrival_ns);
            } else {
                self.wake(idle);
            }
            self.drain(end_ns, latency);
        }
        self.record.elapsed_ns = self.now_ns - self.began_ns;
        self.record
    }

    /// Forgets what was recorded during the warm-up, once it is over. An overloaded core is never
    /// idle, so this is looked at before each request too.
    fn warm_up(&mut self) {
        if !self.is_warm && self.now_ns >= self.warm_ns {
            (self.is_warm, self.began_ns) = (true, self.now_ns);
            self.record = Record::default();
        }
    }

    /// From the moment the queue is empty until the first packet can be worked on.
    fn wake(&mut self, idle: &mut Histogram) {
        let due_ns = self.interrupted_ns + self.setting.delay_us * 1e3;
        let interrupt_ns = self.arrival_ns.max(due_ns).max(self.now_ns);
        let idle_ns = interrupt_ns - self.now_ns;
        let state = self.enter();
        self.idle.observe(idle_ns);
        match state.state {
            IdleState::Halt => self.record.halt_ns += idle_ns,
            IdleState::Deep => self.record.deep_ns += idle_ns,
        }
        if self.is_warm {
            idle.record(idle_ns.round() as u64);
        }
        let work_ns = self.system.wake_cycles / self.setting.speed_ghz;
        self.record.exit_ns += state.exit_ns;
        self.record.work_ns += work_ns;
        self.record.wakes += 1;
        self.interrupted_ns = interrupt_ns;
        self.now_ns = interrupt_ns + state.exit_ns + work_ns;
    }

    fn enter(&self) -> CState {
        match &self.system.idle {
            IdlePolicy::Always(state) => *state,
            IdlePolicy::Predict(states) => {
                let predicted_ns = self.idle.predict_ns();
                let fits = |it: &&CState| it.residency_ns <= predicted_ns;
                let deepest = states.iter().rev().find(fits);
                deepest.or(states.first()).copied().unwrap_or(CState {
                    state: IdleState::Halt,
                    exit_ns: 0.0,
                    residency_ns: 0.0,
                })
            }
        }
    }

    /// Works until the queue is empty: packets that arrive meanwhile need no interrupt.
    fn drain(&mut self, end_ns: f64, latency: &mut Histogram) {
        let started_ns = self.now_ns;
        while self.arrival_ns <= self.now_ns && self.arrival_ns < end_ns {
            self.warm_up();
            if self.arrival_ns <= started_ns {
                self.record.batch_sum += 1;
            }
            let spread = self.machine.work_spread;
            let share = 1.0 - spread + spread * exponential(&mut self.random);
            let work_ns = self.system.request_cycles * share / self.setting.speed_ghz;
            self.now_ns += work_ns;
            self.record.work_ns += work_ns;
            self.record.requests += 1;
            if self.is_warm {
                let taken_ns = self.now_ns - self.arrival_ns + self.machine.network_ns;
                latency.record(taken_ns.round() as u64);
            }
            self.next_arrival();
        }
    }

    fn next_arrival(&mut self) {
        self.arrival_ns += self.gap_ns * exponential(&mut self.random);
    }
}

/// The mean of the last idle intervals.
#[derive(Debug, Default)]
struct Predictor {
    last_ns: [f64; IDLE_HISTORY],
    count: usize,
}

impl Predictor {
    fn observe(&mut self, idle_ns: f64) {
        self.last_ns[self.count % IDLE_HISTORY] = idle_ns;
        self.count += 1;
    }

    fn predict_ns(&self) -> f64 {
        self.last_ns.iter().sum::<f64>() / self.count.clamp(1, IDLE_HISTORY) as f64
    }
}

/// An exponential number with mean 1.
pub(super) fn exponential(random: &mut Xoshiro256PlusPlus) -> f64 {
    -libm::log(1.0 - random.random::<f64>())
}
