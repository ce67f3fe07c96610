//! Processor time as the kernel counts it, and what a virtual machine's host took of it.

use super::Shown;

/// The processor time of some processors since the machine began, in the kernel's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// When the machine began.
    pub const START: Self = Self { all: 0, stolen: 0 };

    /// Of `cpus`; of all processors where there are none named. None: the kernel does not tell.
    #[must_use]
    pub fn now(cpus: &[usize]) -> Option<Self> {
        Self::read(&Shown::here().text("/proc/stat")?, cpus)
    }

    /// From the text of `/proc/stat` (proc_stat(5)): `cpuN user nice system idle
    /// iowait irq softirq steal guest guest_nice`, where guest time is part of user time.
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

    /// The share that the host took since `earlier`. None: no time has passed.
    #[must_use]
    pub fn stolen_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        // The kernel's counts may step back by a tick.
        Some(self.stolen.saturating_sub(earlier.stolen) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_took_is_a_share_of_all_time() {
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
        assert_eq!(Ticks::read("cpu 1 2 3\n", &[]), None, "an elder kernel");
        assert!(Ticks::now(&[]).is_some());
    }

    #[test]
    fn since_the_machine_began_is_all_there_is() {
        let now = Ticks::read("cpu  10 0 10 70 0 0 0 10 0 0\n", &[]).unwrap();
        assert_eq!(now.stolen_since(Ticks::START), Some(0.1));
        assert_eq!(Ticks::START.stolen_since(Ticks::START), None);
    }
}
