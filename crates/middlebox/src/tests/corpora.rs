//! Runs the checks of the fuzz target on its committed corpus.
//!
//! `MIDDLEBOX_WRITE_CORPUS=1` writes its sequences anew: a short conversation at each step.

use std::path::{Path, PathBuf};
use std::{env, fs};

use roce::wire::{NakCode, Opcode};

use crate::tests::direct::{CHAIN, Direct, FIRST, acknowledge, nak, node, original, read};
use crate::tests::world::head;
use crate::tests::world::network::Random;
use crate::{Config, Step, fuzzing};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/middlebox_frames")
}

#[test]
fn sequences_of_the_corpus_pass_the_checks() {
    if env::var_os("MIDDLEBOX_WRITE_CORPUS").is_some() {
        write();
    }
    let mut count = 0;
    for file in fs::read_dir(folder()).unwrap() {
        let input = fs::read(file.unwrap().path()).unwrap();
        fuzzing::check_sequence(&input);
        // And with every other set of switches.
        for switches in 0..32 {
            let other = [&[switches], input.get(1..).unwrap_or_default()].concat();
            fuzzing::check_sequence(&other);
        }
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

/// `MIDDLEBOX_MUTATIONS=N` tries N instead of a few.
#[test]
fn mutated_sequences_pass_the_checks() {
    let count = env::var("MIDDLEBOX_MUTATIONS").ok();
    let count: u64 = count.and_then(|count| count.parse().ok()).unwrap_or(1500);
    let corpus: Vec<Vec<u8>> = fs::read_dir(folder())
        .unwrap()
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    for seed in 0..count {
        let mut random = Random(seed);
        let input = &corpus[random.below(corpus.len() as u64) as usize];
        let other = &corpus[random.below(corpus.len() as u64) as usize];
        let mutated = mutate(input, other, &mut random);
        let checked = std::panic::catch_unwind(|| fuzzing::check_sequence(&mutated));
        assert!(checked.is_ok(), "seed {seed}");
    }
}

/// Frames of two sequences: lost, repeated, exchanged, from the other side, and with other bytes.
fn mutate(input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut pieces: Vec<Vec<u8>> = pieces(&input[1..]);
    pieces.extend(self::pieces(&other[1..]));
    for _ in 0..1 + random.below(12) {
        let index = random.below(pieces.len() as u64) as usize;
        match random.below(6) {
            0 if pieces.len() > 1 => {
                pieces.remove(index);
            }
            1 => pieces.push(pieces[index].clone()),
            2 => {
                let with = random.below(pieces.len() as u64) as usize;
                pieces.swap(index, with);
            }
            3 => pieces[index][0] = random.next() as u8,
            _ => {
                // Beyond the headers below the transport, mostly.
                let piece = &mut pieces[index];
                let offset = 3 + random.below(piece.len() as u64 - 3) as usize;
                piece[offset] ^= 1 << random.below(8);
            }
        }
    }
    [vec![random.next() as u8], pieces.concat()].concat()
}

/// Each frame with its head.
fn pieces(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(3) {
        let len = usize::from(u16::from_be_bytes([head[1], head[2]])).min(rest.len());
        pieces.push(bytes[..3 + len].to_vec());
        bytes = &rest[len..];
    }
    pieces
}

fn write() {
    fs::create_dir_all(folder()).unwrap();
    for (step, switches) in Step::ALL.into_iter().zip([0_u8, 1, 3, 7, 15]) {
        let recorded = conversation(step).recorded;
        let file = folder().join(format!("{step:?}").to_lowercase());
        fs::write(file, [&[switches], recorded.as_slice()].concat()).unwrap();
    }
}

/// Appends of three clients, losses, a failure, and a client that connects again.
fn conversation(step: Step) -> Direct {
    let mut direct = Direct::with_shared(Config::new(step, 1), 2);
    direct.link();
    let [first, _] = direct.append_two();
    direct.response(&first[0], nak(NakCode::PsnSequence));
    direct.request(0, FIRST + 3, read(head(CHAIN)));
    let is_converted = parsed_opcode(&first[0]) == Opcode::WriteOnly;
    let body = if is_converted {
        acknowledge()
    } else {
        original(node(1).empty().word())
    };
    direct.response(&first[0], body);
    direct.append(2, FIRST + 1, head(CHAIN), node(3));
    direct.request(1, FIRST + 9, read(head(CHAIN)));
    direct.connect(2, 2);
    direct.response(&first[0], nak(NakCode::RemoteAccess));
    direct
}

fn parsed_opcode(sent: &crate::tests::direct::Sent) -> Opcode {
    crate::tests::direct::parsed(sent).transport.body.opcode()
}
