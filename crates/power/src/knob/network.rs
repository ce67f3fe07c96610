//! Knobs of a network device and of polling sockets.

use sys::netlink;

use super::{Bounds, Form, Knob, Name, Place, Probe, found, present};
use crate::limits;
use crate::root::Root;

const NO_DEVICE: &str = "no device was named (`--device`)";

fn file(root: &Root, name: Name, path: String, most: u64) -> Probe {
    if !root.path(&path).exists() {
        return Probe::Absent(format!("/{path} does not exist"));
    }
    let place = Place::File(path);
    let knob = Knob {
        name,
        present: present(root, [place.clone()]),
        bounds: Bounds::Range(0, most),
        targets: vec![(place, Form::Same)],
    };
    found(root, knob)
}

fn of_device(root: &Root, name: Name, device: Option<&str>, attribute: &str, most: u64) -> Probe {
    match device {
        None => Probe::Absent(NO_DEVICE.to_owned()),
        Some(device) => file(
            root,
            name,
            format!("sys/class/net/{device}/{attribute}"),
            most,
        ),
    }
}

pub(super) fn busy_poll(root: &Root) -> Probe {
    // `busy_poll` is for poll and select, `busy_read` for reads; both, or only some programs poll.
    let poll = "proc/sys/net/core/busy_poll".to_owned();
    match file(root, Name::BusyPoll, poll, limits::BUSY_POLL_US) {
        Probe::Usable(mut knob) => {
            let read = Place::File("proc/sys/net/core/busy_read".to_owned());
            knob.targets.push((read, Form::Same));
            found(root, knob)
        }
        other => other,
    }
}

pub(super) fn defer_hard_irqs(root: &Root, device: Option<&str>) -> Probe {
    let most = limits::DEFER_HARD_IRQS;
    of_device(
        root,
        Name::DeferHardIrqs,
        device,
        "napi_defer_hard_irqs",
        most,
    )
}

pub(super) fn gro_flush_timeout(root: &Root, device: Option<&str>) -> Probe {
    let most = limits::TIMEOUT_NS;
    of_device(
        root,
        Name::GroFlushTimeout,
        device,
        "gro_flush_timeout",
        most,
    )
}

/// The device of a knob that is behind netlink, or why there is none.
fn by_netlink<'a>(root: &Root, device: Option<&'a str>) -> Result<&'a str, String> {
    let device = device.ok_or(NO_DEVICE)?;
    match root.is_machine() {
        true => Ok(device),
        false => Err("netlink reaches this machine only, not another tree".to_owned()),
    }
}

pub(super) fn rx_usecs(root: &Root, device: Option<&str>) -> Probe {
    let device = match by_netlink(root, device) {
        Ok(device) => device,
        Err(why) => return Probe::Absent(why),
    };
    let coalescing = match netlink::coalescing(device) {
        Ok(coalescing) => coalescing,
        Err(error) => {
            return Probe::Absent(format!("the driver of {device} has no coalescing: {error}"));
        }
    };
    let Some(usecs) = coalescing.rx_usecs else {
        return Probe::Absent(format!("the driver of {device} has no rx-usecs"));
    };
    let mut targets = Vec::new();
    if coalescing.is_adaptive_rx.is_some() {
        // An adaptive driver would replace the delay at once.
        targets.push((
            Place::AdaptiveRx(device.to_owned()),
            Form::Fixed("0".to_owned()),
        ));
    }
    targets.push((Place::RxUsecs(device.to_owned()), Form::Same));
    let knob = Knob {
        name: Name::RxUsecs,
        present: usecs.to_string(),
        bounds: Bounds::Range(0, limits::RX_USECS),
        targets,
    };
    found(root, knob)
}

pub(super) fn irq_suspend_timeout(root: &Root, device: Option<&str>) -> Probe {
    let device = match by_netlink(root, device) {
        Ok(device) => device,
        Err(why) => return Probe::Absent(why),
    };
    let napis = match netlink::device_index(device).and_then(netlink::napis) {
        Ok(napis) => napis,
        Err(error) => return Probe::Absent(format!("no NAPI instances of {device}: {error}")),
    };
    let with: Vec<Place> = napis
        .iter()
        .filter(|it| it.irq_suspend_timeout_ns.is_some())
        .map(|it| Place::IrqSuspend(it.id))
        .collect();
    if with.is_empty() {
        let why = "has no NAPI instance with irq-suspend-timeout (Linux 6.13, and the driver)";
        return Probe::Absent(format!("{device} {why}"));
    }
    let knob = Knob {
        name: Name::IrqSuspendTimeout,
        present: present(root, with.clone()),
        bounds: Bounds::Range(0, limits::TIMEOUT_NS),
        targets: with.into_iter().map(|it| (it, Form::Same)).collect(),
    };
    found(root, knob)
}
