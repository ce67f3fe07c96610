//! The search for the parameters.
//!
//! The three powers enter linearly: for given other parameters, they are the non-negative least
//! squares of relative errors. The other five are searched at random, first everywhere, then
//! around the best, with a radius that shrinks. All simulations share one seed.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::core::exponential;
use super::published::{PREDICTED_RPS, Published, Reading, TABLE, Which};
use super::sweep::{Grid, Lines, Load};
use super::{Machine, Parameters, System};

/// What a fit needs.
#[derive(Debug, Clone)]
pub struct Search {
    /// The machine.
    pub machine: Machine,
    /// How the published table is read.
    pub reading: Reading,
    /// Requests of one simulation.
    pub requests: usize,
    /// Sets of parameters tried everywhere, and around the best.
    pub tries: (usize, usize),
    /// Seed of the search and of the simulations.
    pub seed: u64,
}

impl Search {
    /// The search of the decision.
    #[must_use]
    pub fn new(reading: Reading) -> Self {
        Self {
            machine: Machine::default(),
            reading,
            requests: 40_000,
            tries: (150, 150),
            seed: 1,
        }
    }

    /// The best parameters, and their sum of squared relative errors over the fitted savings.
    /// `progress` is told of each improvement.
    pub fn run(&self, mut progress: impl FnMut(usize, f64)) -> (Parameters, f64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut best = ([0.5; 5], f64::INFINITY, Parameters::default());
        let (anywhere, around) = self.tries;
        for number in 0..anywhere + around {
            let place = match number.checked_sub(anywhere) {
                None => std::array::from_fn(|_| random.random()),
                Some(step) => {
                    let left = 1.0 - step as f64 / around as f64;
                    near(best.0, 0.2 * left * left + 0.005, &mut random)
                }
            };
            let (parameters, error) = self.solve(&at(place));
            if error < best.1 {
                best = (place, error, parameters);
                progress(number, error);
            }
        }
        (best.2, best.1)
    }

    /// The sum of squared relative errors of parameters over the fitted savings.
    #[must_use]
    pub fn error(&self, parameters: &Parameters) -> f64 {
        let fitted = TABLE.iter().filter(|it| it.rate_rps < PREDICTED_RPS);
        let errors = fitted.flat_map(|published| {
            let found = savings(
                &self.machine,
                parameters,
                published,
                self.requests,
                self.seed,
            );
            let values = published.read(self.reading).values();
            found
                .into_iter()
                .zip(values)
                .map(|(it, value)| (it / value - 1.0) * (it / value - 1.0))
        });
        errors.sum()
    }

    /// The powers that suit the other parameters best, and the error with them.
    fn solve(&self, tried: &Parameters) -> (Parameters, f64) {
        let fitted = TABLE.iter().filter(|it| it.rate_rps < PREDICTED_RPS);
        let mut rows = Vec::new();
        for published in fitted {
            let saved = terms(&self.machine, tried, published, self.requests, self.seed);
            let values = published.read(self.reading).values();
            rows.extend(
                saved
                    .iter()
                    .zip(values)
                    .map(|(it, value)| it.map(|term| term / value)),
            );
        }
        let (powers, error) = non_negative(&rows);
        let parameters = Parameters {
            active_w: powers[0],
            halt_w: powers[1],
            ring_w: powers[2],
            ..*tried
        };
        (parameters, error)
    }
}

/// What each knob saves for a watt of active, halted and ring power, line by line.
fn terms(
    machine: &Machine,
    parameters: &Parameters,
    published: &Published,
    requests: usize,
    seed: u64,
) -> [[f64; 3]; 4] {
    let system = &system(parameters, published.which);
    let rate_rps = published.rate_rps;
    let load = Load {
        machine,
        system,
        rate_rps,
        requests,
        seed,
    };
    let mut grid = Grid::new(load);
    let lines: Lines = grid.lines();
    let exponents = (parameters.active_exponent, parameters.ring_exponent);
    lines.map(|ends| ends.map_or([0.0; 3], |ends| grid.difference(ends, exponents)))
}

/// The four savings of the model, joules, in the order of [`super::published::NAMES`]. 0: no two
/// points of a line count.
#[must_use]
pub fn savings(
    machine: &Machine,
    parameters: &Parameters,
    published: &Published,
    requests: usize,
    seed: u64,
) -> [f64; 4] {
    let powers = [parameters.active_w, parameters.halt_w, parameters.ring_w];
    terms(machine, parameters, published, requests, seed).map(|it| {
        it.iter()
            .zip(powers)
            .map(|(term, power)| term * power)
            .sum()
    })
}

/// The preset of a system.
#[must_use]
pub fn system(parameters: &Parameters, which: Which) -> System {
    match which {
        Which::Libos => System::libos(parameters),
        Which::Linux => System::linux(parameters),
    }
}

/// Parameters at a place of the unit cube: logarithmic for what spans decades.
fn at(place: [f64; 5]) -> Parameters {
    let value = |index: usize| {
        let (_, least, greatest) = Parameters::BOUNDS[index];
        match greatest / least > 10.0 {
            true => least * libm::pow(greatest / least, place[index]),
            false => least + (greatest - least) * place[index],
        }
    };
    Parameters {
        active_exponent: value(0),
        ring_exponent: value(1),
        linux_wake_cycles: value(2),
        libos_wake_cycles: value(3),
        libos_exit_us: value(4),
        active_w: 0.0,
        halt_w: 0.0,
        ring_w: 0.0,
    }
}

/// A place around another: a difference of exponentials (Laplace) in each direction.
fn near(place: [f64; 5], radius: f64, random: &mut Xoshiro256PlusPlus) -> [f64; 5] {
    place.map(|it| {
        let step = exponential(random) - exponential(random);
        (it + radius * step).clamp(0.0, 1.0)
    })
}

/// Least squares of `rows · x = 1` with x at least 0, and the sum of squares: the best of the
/// solutions with some of the unknowns at 0 whose others are not negative.
fn non_negative(rows: &[[f64; 3]]) -> ([f64; 3], f64) {
    let mut best = ([0.0; 3], rows.len() as f64);
    for chosen in 1..8_usize {
        let used: Vec<usize> = (0..3).filter(|it| chosen >> it & 1 == 1).collect();
        let Some(solved) = least_squares(rows, &used) else {
            continue;
        };
        let error = rows.iter().map(|row| {
            let sum: f64 = row.iter().zip(solved).map(|(a, x)| a * x).sum();
            (sum - 1.0) * (sum - 1.0)
        });
        let error: f64 = error.sum();
        if solved.iter().all(|it| *it >= 0.0) && error < best.1 {
            best = (solved, error);
        }
    }
    best
}

/// The normal equations by elimination; the unknowns that are not used stay 0. None: singular.
fn least_squares(rows: &[[f64; 3]], used: &[usize]) -> Option<[f64; 3]> {
    let size = used.len();
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for row in rows {
        for (i, &a) in used.iter().enumerate() {
            for (j, &b) in used.iter().enumerate() {
                matrix[i][j] += row[a] * row[b];
            }
            matrix[i][size] += row[a];
        }
    }
    for pivot in 0..size {
        if matrix[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        let row = matrix[pivot].clone();
        for (other, target) in matrix.iter_mut().enumerate() {
            if other != pivot {
                let factor = target[pivot] / row[pivot];
                target
                    .iter_mut()
                    .zip(&row)
                    .for_each(|(it, value)| *it -= factor * value);
            }
        }
    }
    let mut solved = [0.0; 3];
    for (index, &unknown) in used.iter().enumerate() {
        solved[unknown] = matrix[index][size] / matrix[index][index];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_squares_find_what_made_the_rows_and_nothing_negative() {
        // Rows made by x = (0.5, 0, 0.25): every combination gives 1.
        let rows = [[2.0, 1.0, 0.0], [0.0, -3.0, 4.0], [1.0, 7.0, 2.0]];
        let (found, error) = non_negative(&rows);
        assert!(error < 1e-12, "{error}");
        let expected = [0.5, 0.0, 0.25];
        assert!(
            found
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-9),
            "{found:?}"
        );
        // x = −1 is the solution without the bound.
        assert_eq!(non_negative(&[[-1.0, 0.0, 0.0]]), ([0.0; 3], 1.0));
    }

    #[test]
    fn the_parameters_of_the_presets_are_those_that_the_search_found() {
        for (reading, found) in [(Reading::Exchanged, 1.4636), (Reading::Printed, 2.4935)] {
            let error = Search::new(reading).error(&Parameters::of(reading));
            assert!((error - found).abs() < 0.002, "{reading:?}: {error}");
        }
    }

    #[test]
    fn a_search_repeats_itself() {
        let search = Search {
            requests: 1_000,
            tries: (2, 2),
            ..Search::new(Reading::Printed)
        };
        let [first, again] = [(); 2].map(|()| search.run(|_, _| {}));
        assert_eq!(first, again);
    }
}
