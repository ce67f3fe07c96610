//! What was published of the prototype: thousand operations a second with a single-core middlebox,
//! from the plotted data of Grant & Snoeren (WORDS 2021, wantonsolutions/warm). One run a point.

use workload::Ycsb;

use super::{Config, Costs, Step};

/// Client threads of the points.
pub const THREADS: [u32; 7] = [2, 4, 8, 16, 32, 48, 64];

/// A series; none: the point is missing.
pub type Series = [Option<f64>; 7];

/// All series that were published. That of YCSB-B with mapping was drawn as a placeholder and is
/// left out, as are points that were dropped because the system crashed.
pub const SERIES: [(Ycsb, Step, Series); 14] = [
    (
        Ycsb::A,
        Step::None,
        all([36.7, 65.4, 106.3, 153.5, 162.2, 145.7, 114.4]),
    ),
    (
        Ycsb::A,
        Step::Writes,
        all([47.6, 78.7, 127.8, 185.8, 241.3, 237.8, 196.3]),
    ),
    (
        Ycsb::A,
        Step::Reads,
        all([43.7, 76.8, 124.5, 181.2, 217.4, 220.6, 191.9]),
    ),
    (
        Ycsb::A,
        Step::Mapping,
        all([28.9, 39.3, 47.4, 53.1, 57.8, 59.1, 58.5]),
    ),
    (
        Ycsb::A,
        Step::Conversion,
        all([28.7, 38.4, 49.7, 52.2, 57.3, 58.5, 59.2]),
    ),
    (
        Ycsb::B,
        Step::None,
        all([76.2, 140.4, 225.3, 374.6, 482.9, 483.0, 469.9]),
    ),
    (
        Ycsb::B,
        Step::Writes,
        all([77.0, 131.6, 237.6, 362.6, 478.8, 486.3, 477.5]),
    ),
    (
        Ycsb::B,
        Step::Reads,
        all([70.2, 135.9, 232.9, 357.8, 457.7, 481.4, 466.0]),
    ),
    (Ycsb::B, Step::Conversion, first([40.2, 54.3, 65.5, 69.2])),
    (
        Ycsb::WriteOnly,
        Step::None,
        all([22.4, 41.1, 68.6, 93.2, 91.4, 78.2, 64.6]),
    ),
    (
        Ycsb::WriteOnly,
        Step::Writes,
        all([35.1, 61.3, 100.1, 159.0, 207.9, 242.4, 238.8]),
    ),
    (
        Ycsb::WriteOnly,
        Step::Reads,
        all([27.4, 60.6, 102.9, 150.6, 178.8, 216.4, 233.4]),
    ),
    (
        Ycsb::WriteOnly,
        Step::Mapping,
        all([21.3, 30.1, 43.8, 64.3, 71.7, 53.7, 55.7]),
    ),
    (
        Ycsb::WriteOnly,
        Step::Conversion,
        first([21.5, 30.0, 43.2, 63.4, 71.2]),
    ),
];

/// The published rate in operations a second; none if there is none.
#[must_use]
pub fn rate(workload: Ycsb, step: Step, threads: u32) -> Option<f64> {
    let index = THREADS.iter().position(|it| *it == threads)?;
    let series = SERIES.iter().find(|it| it.0 == workload && it.1 == step)?;
    series.2[index].map(|thousands| thousands * 1e3)
}

/// Two steps at one point, both of which were published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Order {
    /// Reads and writes.
    pub workload: Ycsb,
    /// Client threads.
    pub threads: u32,
    /// The steps, the earlier one first.
    pub steps: [Step; 2],
    /// The published rate of each, in operations a second.
    pub published: [f64; 2],
    /// The rate of each that is compared with it.
    pub found: [f64; 2],
}

impl Order {
    /// Whether the step that was published as the faster one is.
    #[must_use]
    pub fn is_reproduced(&self) -> bool {
        let order = |rates: [f64; 2]| rates[0].total_cmp(&rates[1]);
        order(self.published) == order(self.found)
    }
}

/// All pairs of steps that were published at the same point, with the rates that `rate_of` gives.
pub fn orders(mut rate_of: impl FnMut(Ycsb, Step, u32) -> f64) -> Vec<Order> {
    let mut orders = Vec::new();
    for workload in [Ycsb::A, Ycsb::B, Ycsb::WriteOnly] {
        for threads in THREADS {
            let mut points = Vec::new();
            for (_, step) in Step::ALL {
                if let Some(published) = rate(workload, step, threads) {
                    points.push((step, published, rate_of(workload, step, threads)));
                }
            }
            for (index, first) in points.iter().enumerate() {
                orders.extend(points[index + 1..].iter().map(|second| Order {
                    workload,
                    threads,
                    steps: [first.0, second.0],
                    published: [first.1, second.1],
                    found: [first.2, second.2],
                }));
            }
        }
    }
    orders
}

/// The setting of the points, with the costs that were fitted to them. How much is simulated, and
/// the seed, were not published.
#[must_use]
pub const fn config(workload: Ycsb, step: Step, threads: u32) -> Config {
    Config {
        threads,
        outstanding: 2,
        workload,
        theta: 0.75,
        keys: 1024,
        value_len: 1024,
        step,
        hottest: None,
        is_steering: true,
        cores: 1,
        costs: Costs::prototype(),
        operations: 100_000,
        seed: 1,
    }
}

const fn all(values: [f64; 7]) -> Series {
    first(values)
}

const fn first<const N: usize>(values: [f64; N]) -> Series {
    let mut series = [None; 7];
    let mut index = 0;
    while index < N {
        series[index] = Some(values[index]);
        index += 1;
    }
    series
}
