//! Runs the checks of the fuzz target on its committed corpus, and on mutations of it.
//!
//! `TCPIP_WRITE_CORPUS=1` writes the corpus anew: conversations of one to three connections.
//! `TCPIP_MUTATIONS=N` tries N mutations instead of a few, from the seed `TCPIP_SEED` on.

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::fuzzing::check_sequence;
use crate::limits::ANSWERS_MAX;
use crate::testing::Random;

// Steps, by the last two bits of their first byte (`crate::fuzzing`).
const FRAME: u8 = 0;
const TIME: u8 = 1;
const SEGMENT: u8 = 2;
const ANSWER: u8 = 3;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 0x10;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tcpip_frames")
}

fn corpus() -> Vec<Vec<u8>> {
    if env::var_os("TCPIP_WRITE_CORPUS").is_some() {
        write();
    }
    let files = fs::read_dir(folder()).unwrap();
    files
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn sequences_of_the_corpus_pass_the_checks() {
    let corpus = corpus();
    let counts: Vec<_> = corpus.iter().map(|input| check_sequence(input)).collect();
    // They reach what they are meant to reach.
    let established: u64 = counts.iter().map(|counts| counts.established).sum();
    assert!(established >= 7, "{counts:?}");
    assert!(counts.iter().any(|counts| counts.half_open_dropped == 4));
    assert!(counts.iter().any(|counts| counts.reset > 0));
}

#[test]
fn mutated_sequences_pass_the_checks() {
    let number = |name| {
        env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let first = number("TCPIP_SEED").unwrap_or(0);
    let count = number("TCPIP_MUTATIONS").unwrap_or(3000);
    let corpus = corpus();
    for seed in first..first + count {
        let mut random = Random(seed);
        let mut steps = Vec::new();
        for _ in 0..1 + random.below(3) {
            let input = &corpus[random.below(corpus.len())];
            steps.extend(split(input));
        }
        mutate(&mut steps, &mut random);
        let mutated = steps.concat();
        let checked = std::panic::catch_unwind(|| check_sequence(&mutated));
        assert!(checked.is_ok(), "TCPIP_SEED={seed} TCPIP_MUTATIONS=1");
    }
}

/// Loses, repeats, exchanges and moves steps, and changes their bytes.
fn mutate(steps: &mut Vec<Vec<u8>>, random: &mut Random) {
    for _ in 0..random.below(30) {
        let index = random.below(steps.len());
        match random.below(8) {
            0 if steps.len() > 1 => drop(steps.remove(index)),
            1 => steps.insert(index, steps[index].clone()),
            2 => {
                let other = random.below(steps.len());
                steps.swap(index, other);
            }
            3 => steps[index][0] = random.next_u64() as u8,
            4 => {
                let bytes = random.below(60);
                let added: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
                steps.insert(index, step(random.next_u64() as u8, &added));
            }
            _ => {
                let step = &mut steps[index];
                if step.len() > 2 {
                    let at = 2 + random.below(step.len() - 2);
                    step[at] ^= 1 << random.below(8);
                }
            }
        }
    }
}

fn split(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut steps = Vec::new();
    while let [_, len, rest @ ..] = input {
        let len = usize::from(*len).min(rest.len());
        steps.push(input[..2 + len].to_vec());
        input = &rest[len..];
    }
    steps
}

fn step(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, bytes.len() as u8], bytes].concat()
}

/// A segment of the peer with the number `port`. Its sequence number is `at`, after that of its
/// SYN.
fn segment(kind: u8, port: u8, flags: u8, at: u16, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let [high, low] = at.to_be_bytes();
    let words = (options.len() / 4) as u8;
    let fields = [port, flags, high, low, 0x40, words];
    step(kind, &[&fields, options, payload].concat())
}

fn write() {
    fs::create_dir_all(folder()).unwrap();
    let handshake = |port| {
        // Maximum segment size, window scale, selective acknowledgements.
        let options = [2, 4, 5, 180, 3, 3, 2, 1, 4, 2, 1, 1];
        let syn = segment(SEGMENT, port, SYN, 0, &options, &[]);
        [syn, segment(ANSWER, port, ACK, 1, &[], &[])].concat()
    };
    let say = |port, at, bytes: &[u8]| segment(ANSWER, port, ACK | 8, at, &[], bytes);
    let end = |port, at| segment(ANSWER, port, ACK | FIN, at, &[], &[]);
    let wait = |exponent| step(TIME, &vec![0; exponent]);
    let echo = [
        handshake(0),
        say(0, 1, b"hello"),
        say(0, 6, b"again"),
        end(0, 11),
    ];
    let reordered = [
        handshake(1),
        say(1, 6, b"again"),
        say(1, 11, b"third"),
        say(1, 1, b"hello"),
        wait(6),
        segment(ANSWER, 1, RST | ACK, 16, &[], &[]),
    ];
    let silent = [
        handshake(2),
        say(2, 1, &[b'x'; 200]),
        wait(12),
        wait(17),
        wait(17),
    ];
    let flood: Vec<Vec<u8>> = (0..4)
        .map(|port| segment(SEGMENT, port, SYN, u16::from(port), &[], &[]))
        .chain((0..ANSWERS_MAX).map(|_| wait(11)))
        .collect();
    let mut closed = vec![handshake(3)];
    closed.extend((0..12).map(|at| handshake(at % 3)));
    closed.extend([say(3, 1, b"late"), end(3, 5), wait(15)]);
    let arp = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0,
        0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ];
    let ping = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0x66, 0xd4,
        10, 0, 0, 9, 10, 0, 0, 1, 8, 0, 0x33, 0x37, 0, 1, 0, 1, b'a', b'b', b'c', b'd',
    ];
    let frames = [
        step(FRAME, &arp),
        step(FRAME, &ping),
        step(FRAME, &ping[..20]),
    ];
    for (name, steps) in [
        ("echo", echo.concat()),
        ("reordered", reordered.concat()),
        ("silent", silent.concat()),
        ("flood", flood.concat()),
        ("closed", closed.concat()),
        ("frames", frames.concat()),
    ] {
        fs::write(folder().join(name), steps).unwrap();
    }
}
