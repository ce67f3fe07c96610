//! Other programs read what leaves the middlebox: Wireshark's decoder, and scapy. And the sequence
//! numbers towards memory have no gaps.

#[path = "../../../roce/src/tests/other_tools/scapy.rs"]
mod scapy;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use roce::pcap::{Resolution, Writer};
use roce::wire::{Packet, Psn};

use crate::tests::world::{World, scenario};
use crate::{Config, Faults, Step};

/// What left the middlebox in a run with losses at each step: time, towards memory, bytes.
fn frames(step: Step) -> Vec<(u64, bool, Vec<u8>)> {
    let mut case = scenario(5, Config::new(step, 1), Faults::default());
    case.network.lost = 40;
    case.network.damaged = 0;
    case.reads = 40;
    let mut world = World::new(&case);
    world.network.kept = Some(Vec::new());
    world.finish(&case).unwrap();
    let frames = world.network.kept.take().unwrap();
    assert!(frames.len() > 100);
    frames
}

fn capture(name: &str, frames: &[Vec<u8>]) -> PathBuf {
    let mut writer = Writer::new(Resolution::Microseconds);
    for (number, frame) in frames.iter().enumerate() {
        writer.push(1_700_000_000_000_000_000 + number as u64 * 1000, frame);
    }
    let path = scapy::temporary_folder().join(name);
    fs::write(&path, &writer.bytes).unwrap();
    path
}

/// Packets of connections only: scapy's layer ends before the headers of datagrams.
fn packets() -> Vec<Vec<u8>> {
    let all = Step::ALL.into_iter().flat_map(frames);
    all.map(|(_, _, frame)| frame)
        .filter(|frame| Packet::new_checked(frame.as_slice()).is_ok())
        .collect()
}

#[test]
fn wireshark_decodes_what_leaves() {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("skipped: tshark is not installed");
        return;
    }
    let packets = packets();
    let path = capture("middlebox-tshark.pcap", &packets);
    let output = Command::new("tshark")
        .args([
            "--disable-protocol",
            "rpcordma",
            "-T",
            "fields",
            "-E",
            "separator=/t",
        ])
        .arg("-r")
        .arg(path)
        .args([
            "-e",
            "frame.len",
            "-e",
            "infiniband.bth.opcode",
            "-e",
            "infiniband.bth.destqp",
        ])
        .args([
            "-e",
            "infiniband.bth.psn",
            "-e",
            "infiniband.reth.dmalen",
            "-e",
            "_ws.malformed",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), packets.len());
    for (line, frame) in lines.iter().zip(&packets) {
        let packet = Packet::new_checked(frame.as_slice()).unwrap();
        let len = packet
            .reth()
            .map_or(String::new(), |reth| reth.len.to_string());
        let expected = format!(
            "{}\t{}\t{:#08x}\t{}\t{len}\t",
            packet.frame().len(),
            packet.opcode().code(),
            packet.qpn(),
            packet.psn(),
        );
        assert_eq!(*line, expected);
    }
}

#[test]
fn scapy_computes_the_same_icrc() {
    let packets = packets();
    let path = capture("middlebox-scapy.pcap", &packets);
    scapy::assert_agrees(path, packets.len());
}

#[test]
fn sequence_numbers_towards_memory_have_no_gaps() {
    for step in [Step::Mapping, Step::Conversion] {
        let mut next: HashMap<u32, Psn> = HashMap::new();
        let mut repeated = 0;
        for (_, is_to_memory, frame) in frames(step) {
            let Ok(packet) = Packet::new_checked(frame.as_slice()) else {
                continue;
            };
            if !is_to_memory {
                continue;
            }
            let psn = packet.psn();
            let expected = next.entry(packet.qpn()).or_insert(psn);
            let distance = psn.distance_from(*expected);
            assert!(distance <= 0, "{step:?}: {psn} follows {expected}");
            if distance == 0 {
                *expected = psn.plus(1);
            } else {
                repeated += 1;
            }
        }
        assert!(repeated > 0, "{step:?}: nothing was lost");
    }
}
