//! Processor time in the kernel's ticks, and the share that the host of a virtual machine has used
//! for itself or for other machines (*steal time*).

use super::Shown;

/// The time of a set of processors since the machine was started, in the kernel's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticks {
    /// Time in all states, idle included.
    all: u64,
    /// Steal time.
    stolen: u64,
}

impl Ticks {
    /// The ticks at the start of the machine.
    pub const START: Self = Self { all: 0, stolen: 0 };

    /// Reads the ticks of the processors `cpus`, or of all processors if `cpus` is empty. `None` if
    /// the kernel does not report them.
    #[must_use]
    pub fn now(cpus: &[usize]) -> Option<Self> {
        Self::read(&Shown::here().text("/proc/stat")?, cpus)
    }

    /// Parses the ticks from the text of `/proc/stat` (proc_stat(5)). A line is `cpuN user nice
    /// system idle iowait irq softirq steal guest guest_nice`. The last two are not added, because
    /// user and nice time include them.
    #[must_use]
    pub fn read(stat: &str, cpus: &[usize]) -> Option<Self> {
        let of = |name: &str| -> Option<Self> {
            let line = stat.lines().find_map(|line| {
                let (first, rest) = line.split_once(' ')?;
                (first == name).then_some(rest)
            })?;
            let ticks = line.split_whitespace().take(8);
            let ticks: Vec<u64> = ticks.map(|word| word.parse().ok()).collect::<Option<_>>()?;
            Some(Self {
                all: ticks.iter().sum(),
                stolen: *ticks.get(7)?,
            })
        };
        if cpus.is_empty() {
            return of("cpu");
        }
        let mut sum = Self::START;
        for cpu in cpus {
            let ticks = of(&format!("cpu{cpu}"))?;
            (sum.all, sum.stolen) = (sum.all + ticks.all, sum.stolen + ticks.stolen);
        }
        Some(sum)
    }

    /// Returns the steal time since `earlier` as a fraction of all time since then. `None` if no
    /// time has passed.
    #[must_use]
    pub fn stolen_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        // The kernel's counters may decrease by a tick, so the difference may be negative.
        Some(self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_time_is_a_fraction_of_the_time_of_the_given_processors() {
        let earlier = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                       cpu0 10 0 10 80 0 0 0 0 5 0\n\
                       cpu1 0 0 0 100 0 0 0 0 0 0\n\
                       cpu10 0 0 0 100 0 0 0 0 0 0\n";
        let later = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                     cpu0 60 0 10 105 0 0 0 25 55 0\n\
                     cpu1 0 0 0 200 0 0 0 0 0 0\n\
                     cpu10 0 0 0 190 0 0 0 10 0 0\n";
        let share = |cpus: &[usize]| {
            let [earlier, later] = [earlier, later].map(|text| Ticks::read(text, cpus).unwrap());
            later.stolen_since(earlier)
        };
        assert_eq!(share(&[0]), Some(0.25));
        assert_eq!(share(&[1]), Some(0.0));
        assert_eq!(share(&[0, 10]), Some(0.175));
        assert_eq!(share(&[]), None, "no time has passed");
        assert_eq!(Ticks::read(later, &[7]), None, "no such processor");
        assert_eq!(
            Ticks::read("cpu 1 2 3\n", &[]),
            None,
            "an old kernel reports no steal time"
        );
        assert!(Ticks::now(&[]).is_some());
    }

    #[test]
    fn steal_time_since_the_start_is_a_fraction_of_all_ticks() {
        let now = Ticks::read("cpu  10 0 10 70 0 0 0 10 0 0\n", &[]).unwrap();
        assert_eq!(now.stolen_since(Ticks::START), Some(0.1));
        assert_eq!(Ticks::START.stolen_since(Ticks::START), None);
    }
}
