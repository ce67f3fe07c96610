//! The servers that the shipped experiments compare with, and what their largest asks for: asked of
//! the laboratory's own planning, so that what is found here is what a run will find.

use super::machine::Peers;

/// What an experiment would find. Nothing where the laboratory is not part of this program.
#[cfg(not(feature = "lab"))]
pub(super) fn peers() -> Peers {
    Peers::default()
}

/// What an experiment would find.
#[cfg(feature = "lab")]
pub(super) fn peers() -> Peers {
    planned().unwrap_or_default()
}

#[cfg(feature = "lab")]
fn planned() -> Result<Peers, ::lab::Error> {
    use super::machine::Peer;
    use crate::lab::LABORATORY;

    let mut peers = Peers::default();
    let options = LABORATORY.options()?;
    for shipped in LABORATORY.shipped {
        let plan = LABORATORY.load(shipped.name)?.plan(&options)?;
        let Some(needs) = ::lab::needs(&plan) else {
            continue;
        };
        peers.connections = peers.connections.max(needs.connections);
        for server in needs.servers {
            if peers.servers.iter().any(|peer| peer.name == server.name) {
                continue;
            }
            let found = match server.skipped {
                Some(reason) => Err(reason),
                None => Ok((server.program.clone(), version(&server.program))),
            };
            let name = server.name;
            peers.servers.push(Peer { name, found });
        }
    }
    peers.open_files = u64::from(peers.connections) + ::lab::limits::OTHER_FILES;
    Ok(peers)
}

/// What a program calls itself when it is asked as memcached is. None: it does not say, or not
/// within a second.
#[cfg(feature = "lab")]
fn version(program: &str) -> Option<String> {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(1);
    const LOOK_EVERY: Duration = Duration::from_millis(2);
    const TEXT_LEN: u64 = 4096;

    let mut child = Command::new(program)
        .arg("-V")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            // Whether it could be killed or not, it has not said anything.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let mut text = String::new();
    let output = child.stdout.take()?;
    output.take(TEXT_LEN).read_to_string(&mut text).ok()?;
    super::read::version(&text)
}
