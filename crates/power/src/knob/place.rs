//! Where a knob writes: a file, or a setting behind netlink. Each has a text form, so that a place
//! and its value can be saved as a line.

use std::fmt;
use std::io;
use std::str::FromStr;

use sys::netlink::{self, Coalescing};

use crate::root::Root;

/// A place that holds one value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    /// A file, relative to the root.
    File(String),
    /// `rx-usecs` of a device.
    RxUsecs(String),
    /// Whether a device chooses its delay itself: 0 or 1.
    AdaptiveRx(String),
    /// The suspension of interrupts of a NAPI instance, ns.
    IrqSuspend(u32),
}

impl Place {
    /// The value that it has.
    ///
    /// # Errors
    /// It is gone, or cannot be read.
    pub fn read(&self, root: &Root) -> io::Result<String> {
        let gone = || io::Error::from(io::ErrorKind::Unsupported);
        match self {
            Self::File(path) => root.read(path).map(|text| chosen(&text)),
            Self::RxUsecs(device) => {
                let usecs = netlink::coalescing(device)?.rx_usecs.ok_or_else(gone)?;
                Ok(usecs.to_string())
            }
            Self::AdaptiveRx(device) => {
                let is_adaptive = netlink::coalescing(device)?
                    .is_adaptive_rx
                    .ok_or_else(gone)?;
                Ok(u8::from(is_adaptive).to_string())
            }
            Self::IrqSuspend(id) => {
                // The kernel lists instances by device; the number is unique among all.
                for device in root.list("sys/class/net") {
                    let found = netlink::napis(netlink::device_index(&device)?)?;
                    if let Some(napi) = found.iter().find(|it| it.id == *id) {
                        return Ok(napi.irq_suspend_timeout_ns.ok_or_else(gone)?.to_string());
                    }
                }
                Err(io::ErrorKind::NotFound.into())
            }
        }
    }

    /// Changes it.
    ///
    /// # Errors
    /// The kernel or a lack of privileges refuses it.
    pub fn write(&self, root: &Root, value: &str) -> io::Result<()> {
        let number = || {
            value
                .parse::<u64>()
                .map_err(|_| io::ErrorKind::InvalidInput)
        };
        match self {
            Self::File(path) => root.write(path, value),
            Self::RxUsecs(device) => {
                let usecs = u32::try_from(number()?).map_err(|_| io::ErrorKind::InvalidInput)?;
                let wanted = Coalescing {
                    rx_usecs: Some(usecs),
                    is_adaptive_rx: None,
                };
                netlink::set_coalescing(device, wanted)
            }
            Self::AdaptiveRx(device) => {
                let wanted = Coalescing {
                    rx_usecs: None,
                    is_adaptive_rx: Some(number()? != 0),
                };
                netlink::set_coalescing(device, wanted)
            }
            Self::IrqSuspend(id) => netlink::set_irq_suspend_timeout(*id, number()?),
        }
    }

    /// Why this process may not write it. None: it may, as far as can be told without writing.
    pub(super) fn refusal(&self, root: &Root) -> Option<String> {
        match self {
            Self::File(path) if root.is_writable(path) => None,
            Self::File(path) => Some(format!("/{path} cannot be opened for writing")),
            // `/proc/self/status` would tell capabilities; the write itself does too.
            Self::RxUsecs(_) | Self::AdaptiveRx(_) | Self::IrqSuspend(_) => None,
        }
    }
}

/// The chosen one of a file that lists its choices, as `a [b] c`.
fn chosen(text: &str) -> String {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |it| it.0).to_owned()
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "file:{path}"),
            Self::RxUsecs(device) => write!(formatter, "rx-usecs:{device}"),
            Self::AdaptiveRx(device) => write!(formatter, "adaptive-rx:{device}"),
            Self::IrqSuspend(id) => write!(formatter, "irq-suspend:{id}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no place");
        let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
        let rest = rest.to_owned();
        Ok(match kind {
            // A saved line must not lead out of the tree.
            "file" if !rest.starts_with('/') && !rest.split('/').any(|it| it == "..") => {
                Self::File(rest)
            }
            "rx-usecs" => Self::RxUsecs(rest),
            "adaptive-rx" => Self::AdaptiveRx(rest),
            "irq-suspend" => Self::IrqSuspend(rest.parse().map_err(|_| wrong())?),
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip_as_text_and_none_leads_out_of_the_tree() {
        let places = [
            Place::File("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor".into()),
            Place::RxUsecs("eth0".into()),
            Place::AdaptiveRx("eth0".into()),
            Place::IrqSuspend(8_193),
        ];
        for place in places {
            assert_eq!(place.to_string().parse::<Place>(), Ok(place));
        }
        for wrong in [
            "file:/etc/passwd",
            "file:sys/../etc/passwd",
            "irq-suspend:x",
            "other:1",
            "",
        ] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_a_list_the_chosen_is_read() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("powersave"), "powersave");
    }
}
