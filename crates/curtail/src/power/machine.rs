//! The verbs for a real machine: doctor, run, restore, and the guard.

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use ::power::doctor::{Environment, Report, examine};
use ::power::guard::{self, Restored};
use ::power::knob::{Bounds, Knob, Name, Probe, probe};
use ::power::meter::Meters;
use ::power::root::Root;
use ::power::session::Session;
use anyhow::{Context, bail};
use clap::Args;
use sys::child::{Bounds as ChildBounds, bind, ended};
use sys::poll::{Events, Interest, Poll};

/// Time from one reading of the meters to the next.
const SAMPLE: Duration = Duration::from_millis(200);

/// Which machine.
#[derive(Debug, Clone, Args)]
pub(super) struct Machine {
    /// Folder with `sys`, `proc` and `run`, instead of this machine's
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,

    /// Network device whose knobs are meant
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    machine: Machine,
}

#[derive(Debug, Args)]
pub(super) struct Run {
    #[command(flatten)]
    machine: Machine,

    /// A knob, as `curtail power doctor` names it; may be repeated
    #[arg(long = "set", value_name = "KNOB=VALUE", value_parser = assignment)]
    set: Vec<(Name, String)>,

    /// Also read the power of the whole machine with `ipmitool`
    #[arg(long)]
    ipmi: bool,

    /// Requests that the command makes, for the energy of one
    #[arg(long, value_name = "N")]
    requests: Option<u64>,

    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// Folder with `sys`, `proc` and `run`, instead of this machine's
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

fn assignment(text: &str) -> Result<(Name, String), String> {
    let (name, value) = text.split_once('=').ok_or("a knob is set as KNOB=VALUE")?;
    let known = Name::ALL.iter().find(|it| it.0 == name);
    let known = known.ok_or_else(|| {
        let all: Vec<&str> = Name::ALL.iter().map(|it| it.0).collect();
        format!("`{name}` is none of {}", all.join(", "))
    })?;
    Ok((known.1, value.to_owned()))
}

impl Machine {
    pub(super) fn root(&self) -> Root {
        Root::at(&self.root)
    }

    pub(super) fn examine(&self) -> Report {
        examine(&self.root(), self.device.as_deref())
    }

    /// A knob that may be set.
    pub(super) fn knob(&self, name: Name) -> anyhow::Result<Knob> {
        match probe(&self.root(), name, self.device.as_deref()) {
            Probe::Usable(knob) => Ok(knob),
            Probe::ReadOnly(_, why) | Probe::Absent(why) => bail!("set {}: {why}", name.text()),
        }
    }

    /// Begins a session with a guard.
    pub(super) fn session(&self) -> anyhow::Result<Session> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["power", "guard", "--root"]).arg(&self.root);
        Ok(Session::begin(&self.root(), command)?)
    }
}

/// Ends a session: all knobs are restored.
pub(super) fn end(session: Session) -> anyhow::Result<()> {
    let complaint = session.end()?;
    if !complaint.is_empty() {
        bail!("restore the knobs: {complaint}");
    }
    Ok(())
}

impl Doctor {
    pub(super) fn print(&self) {
        let report = self.machine.examine();
        let environment = match report.environment {
            Environment::BareMetal => "bare metal, as far as it shows",
            Environment::VirtualMachine => "a virtual machine",
            Environment::Container => "a container",
        };
        println!("This is {environment}.\n\nKnobs");
        for (name, probe) in &report.knobs {
            let words = match probe {
                Probe::Usable(knob) => format!("is {}; {}", knob.present, bounds(&knob.bounds)),
                Probe::ReadOnly(knob, why) => format!("is {}; may not be set: {why}", knob.present),
                Probe::Absent(why) => format!("- {why}"),
            };
            println!("  {:<24}{words}", name.text());
        }
        println!("\nMeters");
        for meter in &report.meters {
            println!("  {meter}");
        }
        if report.meters.is_empty() {
            println!("  -");
        }
        for remark in &report.remarks {
            println!("\nnote: {remark}");
        }
    }
}

fn bounds(bounds: &Bounds) -> String {
    match bounds {
        Bounds::Range(least, most) => format!("{least} to {most}"),
        Bounds::Choice(all) => all.join(", "),
    }
}

impl Run {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let root = self.machine.root();
        let knobs: anyhow::Result<Vec<(Knob, &str)>> = self
            .set
            .iter()
            .map(|(name, value)| Ok((self.machine.knob(*name)?, value.as_str())))
            .collect();
        let mut session = None;
        for (knob, value) in knobs? {
            let session = match &mut session {
                Some(session) => session,
                none => none.insert(self.machine.session()?),
            };
            session.set(&knob, value)?;
        }
        let begun = Instant::now();
        let mut meters = Meters::begin(&root, self.ipmi, 0.0);
        let status = self.wait(&root, &mut meters, begun)?;
        let elapsed_s = begun.elapsed().as_secs_f64();
        session.map(end).transpose()?;
        self.tell(&root, &meters, elapsed_s);
        Ok(ExitCode::from(status))
    }

    /// Runs the command, and samples the meters meanwhile.
    fn wait(&self, root: &Root, meters: &mut Meters, begun: Instant) -> anyhow::Result<u8> {
        let Some((program, arguments)) = self.command.split_first() else {
            bail!("there is no command");
        };
        let mut command = Command::new(program);
        command.args(arguments);
        // Without the knobs, the command would not be what was measured.
        bind(
            &mut command,
            &ChildBounds {
                dies_with_parent: true,
                ..ChildBounds::default()
            },
        )?;
        let name = program.to_string_lossy();
        let mut child = command.spawn().with_context(|| format!("run {name}"))?;
        let (poll, end) = (Poll::new()?, ended(&child)?);
        poll.add(&end, 0, Interest::Read)?;
        let mut events = Events::with_capacity(1);
        while events.is_empty() {
            poll.wait(&mut events, Some(SAMPLE.as_nanos() as u64))?;
            meters.sample(root, begun.elapsed().as_secs_f64());
        }
        let code = child.wait()?.code();
        Ok(code.and_then(|it| u8::try_from(it).ok()).unwrap_or(1))
    }

    fn tell(&self, root: &Root, meters: &Meters, elapsed_s: f64) {
        eprintln!("time: {elapsed_s:.1} s");
        for energy in meters.energies() {
            let part = if energy.is_part {
                ", contained in another or beside it"
            } else {
                ""
            };
            let watts = energy.joules / elapsed_s.max(1e-9);
            eprintln!(
                "{}: {:.3} J, {watts:.1} W{part}",
                energy.name, energy.joules
            );
        }
        match (meters.processor_joules(), self.requests) {
            (Some(joules), Some(requests)) if requests > 0 => {
                eprintln!("joules_per_request: {:.9}", joules / requests as f64);
            }
            (None, _) if meters.energies().is_empty() => {
                eprintln!("no meter of energy; what follows are proxies, not joules");
            }
            _ => {}
        }
        for (proxy, value) in meters.proxies(root) {
            eprintln!("{}: {value:.2}", proxy.name());
        }
    }
}

impl Restore {
    pub(super) fn restore(&self) -> anyhow::Result<ExitCode> {
        let restored = guard::restore_journal(&Root::at(&self.root))?;
        let Some(restored) = restored else {
            println!("nothing to restore");
            return Ok(ExitCode::SUCCESS);
        };
        println!("restored: {}", restored.places);
        for problem in &restored.failed {
            eprintln!("not restored: {problem}");
        }
        Ok(exit_code(&restored))
    }

    /// Saves and restores for a session, whose pipes are the standard streams.
    pub(super) fn guard(&self) -> anyhow::Result<ExitCode> {
        let input = BufReader::new(io::stdin());
        let restored = guard::serve(&Root::at(&self.root), input, io::stdout())?;
        for problem in &restored.failed {
            eprintln!("{problem}");
        }
        Ok(exit_code(&restored))
    }
}

fn exit_code(restored: &Restored) -> ExitCode {
    match restored.failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
