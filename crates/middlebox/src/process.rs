//! A middlebox as a loop over a port.

use std::io;

use sys::clock::monotonic_ns;
use sys::poll::Waker;

use crate::limits::{BURST, TURNS_AFTER_STOP};
use crate::middlebox::{Middlebox, Side};
use crate::port::Port;

/// Called at an interval of `every_ns`.
pub struct Report<'a> {
    /// The interval in nanoseconds.
    pub every_ns: u64,
    /// What is called.
    pub call: &'a mut dyn FnMut(&Middlebox),
}

/// Processes frames until `stop` is signalled.
///
/// # Errors
/// The port fails, for example because a device was removed.
pub fn run(
    middlebox: &mut Middlebox,
    port: &mut impl Port,
    stop: &Waker,
    mut report: Option<Report>,
) -> io::Result<()> {
    port.wake_by(stop)?;
    let mut frame = Vec::new();
    let mut report_ns = monotonic_ns();
    let mut timeout_ns = Some(0);
    let mut turns_left = TURNS_AFTER_STOP;
    while turns_left > 0 {
        let is_stopped = port.wait(timeout_ns)?;
        let mut count = 0;
        while count < BURST
            && let Some(side) = port.receive(&mut frame)?
        {
            count += 1;
            let mut send = |side: Side, frame: &[u8]| port.send(side, frame);
            middlebox.process(monotonic_ns(), side, &mut frame, &mut send);
        }
        if is_stopped {
            // What has arrived before is still passed on.
            turns_left = if count == 0 { 0 } else { turns_left - 1 };
        }
        let now_ns = monotonic_ns();
        if middlebox.deadline_ns().is_some_and(|due| due <= now_ns) {
            middlebox.tick(now_ns, &mut |side, frame| port.send(side, frame));
        }
        port.flush();
        let mut deadline_ns = middlebox.deadline_ns();
        if let Some(report) = &mut report {
            if now_ns >= report_ns {
                report_ns = now_ns.saturating_add(report.every_ns);
                (report.call)(middlebox);
            }
            deadline_ns = Some(deadline_ns.map_or(report_ns, |due_ns| due_ns.min(report_ns)));
        }
        timeout_ns = match count {
            BURST => Some(0),
            _ => deadline_ns.map(|due_ns| due_ns.saturating_sub(now_ns)),
        };
    }
    Ok(())
}
