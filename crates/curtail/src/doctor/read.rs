//! What the texts of `/proc` and `/sys` mean: functions of a text, none where it is not as the
//! kernel writes it.

use super::machine::Bound;

/// Processors of a list at most: a text may say anything.
const CPUS_MAX: usize = 1 << 16;
/// Version 1 of control groups writes "no bound" as the largest number of pages, in bytes.
const NO_BOUND_FROM: u64 = 1 << 60;

/// A number alone.
pub(super) fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// The first and last of the numbers, such as of `32768 60999`.
pub(super) fn ends(text: &str) -> Option<(u64, u64)> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(number).collect();
    match numbers?.as_slice() {
        [first, .., last] => Some((*first, *last)),
        _ => None,
    }
}

/// What is chosen of a list such as `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (chosen, _) = rest.split_once(']')?;
    (!chosen.is_empty()).then(|| chosen.to_owned())
}

/// Processors of a list such as `0-3,8`.
pub(super) fn cpus(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number::<usize>(first)?, number::<usize>(last)?);
        if last < first || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// `memory.max`: bytes, or `max`.
pub(super) fn memory_max(text: &str) -> Option<Bound<u64>> {
    match text.trim() {
        "max" => Some(Bound::None),
        bytes => number(bytes).map(|bytes| match bytes {
            NO_BOUND_FROM.. => Bound::None,
            bytes => Bound::At(bytes),
        }),
    }
}

/// `cpu.max`: time and the period it is for, in microseconds; as processors' worth.
pub(super) fn cpu_max(text: &str) -> Option<Bound<f64>> {
    let (time, period) = text.trim().split_once(' ')?;
    quota(time, period)
}

/// The same of version 1, which has a file for each and says -1 for no bound.
pub(super) fn quota(time: &str, period: &str) -> Option<Bound<f64>> {
    let period = number::<u64>(period).filter(|&period| period > 0)?;
    match time.trim() {
        "max" | "-1" => Some(Bound::None),
        time => Some(Bound::At(number::<u64>(time)? as f64 / period as f64)),
    }
}

/// Where this process stands among control groups, from `/proc/self/cgroup` (cgroups(7)): the path
/// in version 2's tree (no controller named), or in the one of version 1 that has the controller.
pub(super) fn group_path<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = controllers.split(',').any(|name| name == controller);
        (is_it && path.starts_with('/')).then_some(path)
    })
}

/// A group and those around it, innermost first: the tightest of their bounds holds. A path that
/// leads outside what this process sees (`/..`) stands for the outermost alone.
pub(super) fn groups_around(path: &str) -> Vec<String> {
    let path = match path.split('/').any(|part| part == "..") {
        true => "",
        false => path.trim_end_matches('/'),
    };
    let mut around = vec![path.to_owned()];
    let slashes = path.rmatch_indices('/');
    around.extend(slashes.map(|(place, _)| path[..place].to_owned()));
    around
}

/// The first words a program says of its version.
#[cfg(feature = "lab")]
pub(super) fn version(text: &str) -> Option<String> {
    const LEN_MAX: usize = 80;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let is_plain = line.chars().all(|letter| !letter.is_control());
    is_plain.then(|| line.chars().take(LEN_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number::<u64>(" 4096\n"), Some(4096));
        assert_eq!(number::<i64>("-1"), Some(-1));
        for odd in ["", "max", "-1", "0x10", "99999999999999999999", "1 2"] {
            assert_eq!(number::<u64>(odd), None, "{odd:?}");
        }
        assert_eq!(ends("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(ends("2912\t0\t2466183"), Some((2912, 2_466_183)));
        assert_eq!(ends("1"), None);
        assert_eq!(ends("1 x"), None);
        assert_eq!(ends(""), None);
    }

    #[test]
    fn choices() {
        assert_eq!(chosen("always [madvise] never").unwrap(), "madvise");
        for odd in ["", "always madvise", "[]", "a [b", "a ]b["] {
            assert_eq!(chosen(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(cpus("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus("5"), Some(vec![5]));
        assert_eq!(cpus("\n"), Some(vec![]), "none is on such a list");
        for odd in ["3-1", "a", "1-", "-1", "0-99999999999"] {
            assert_eq!(cpus(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn bounds_of_control_groups() {
        assert_eq!(memory_max("max\n"), Some(Bound::None));
        assert_eq!(memory_max("1073741824\n"), Some(Bound::At(1 << 30)));
        assert_eq!(memory_max("9223372036854771712"), Some(Bound::None));
        assert_eq!(memory_max(""), None);
        assert_eq!(cpu_max("max 100000\n"), Some(Bound::None));
        assert_eq!(cpu_max("150000 100000\n"), Some(Bound::At(1.5)));
        for odd in ["", "100000", "1 0", "x 100000", "-5 100000"] {
            assert_eq!(cpu_max(odd), None, "{odd:?}");
        }
        assert_eq!(quota("-1\n", "100000\n"), Some(Bound::None));
        assert_eq!(quota("50000\n", "100000\n"), Some(Bound::At(0.5)));
    }

    #[test]
    fn places_among_control_groups() {
        let text = "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/c:d\n0::/user.slice/x\n";
        assert_eq!(group_path(text, "memory"), Some("/a/b"));
        assert_eq!(group_path(text, "cpu"), Some("/c:d"));
        assert_eq!(group_path(text, ""), Some("/user.slice/x"));
        assert_eq!(group_path(text, "pids"), None);
        assert_eq!(group_path("0:\nrubbish\n", ""), None);
        assert_eq!(groups_around("/a/b"), ["/a/b", "/a", ""]);
        assert_eq!(groups_around("/"), [""]);
        assert_eq!(groups_around("/../outside"), [""]);
    }

    #[cfg(feature = "lab")]
    #[test]
    fn versions() {
        let plain = "\nmemcached 1.6.18\nmore\n";
        assert_eq!(version(plain).unwrap(), "memcached 1.6.18");
        assert_eq!(version(" \n"), None);
        assert_eq!(version("\u{1b}[31mred"), None, "nothing a terminal obeys");
        assert_eq!(version(&"v".repeat(1000)).unwrap().len(), 80);
    }
}
