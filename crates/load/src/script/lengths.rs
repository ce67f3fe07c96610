//! Scripts of lengths: a line with the lengths of keys, and a line with the lengths of values. Such
//! scripts are printed by `curtail distribution`, and by `distribution.py` of the
//! multithreaded-cache study (akosik/TextileCache, 2016).
//!
//! ```text
//! 31 28 40 …      key 1, key 2, key 3, …
//! 120 1 377 …     value 1, value 2, value 3, …
//! ```
//!
//! Each pair of a key and a value makes one operation. As in the clients of the study, a length
//! includes the NUL byte that ends the text in memory, and a key consists of letters `K`: length 31
//! is a key of 30 letters. All keys of one length are therefore the same key. The clients of the
//! study store the length of a key in 8 bits without a check. The generator accepts keys of 1 to
//! 250 bytes. Any other length is malformed, and its operation is skipped.
//!
//! Gets and deletes do not need the second line, and are sent while the first line is read.

use std::io::{self, BufRead, BufReader, Read};

use workload::Op;
use workload::limits::KEY_LEN_MAX;

use super::{ScriptItem, ScriptReader, ScriptRequest};
use crate::limits::{SCRIPT_LENGTH_DIGITS_MAX, SCRIPT_LENGTHS_MAX};

/// The longest key. A key of n bytes consists of the first n bytes of this key.
const KEY: [u8; KEY_LEN_MAX] = [b'K'; KEY_LEN_MAX];

/// Stands for a malformed length of a key. No valid key has this length.
const MALFORMED: u8 = 0;

/// The words in the message about a malformed length: one for lengths of the first line, the other
/// for lengths of the second.
const KEY_LENGTH: &str = "key length";
const VALUE_LENGTH: &str = "value length";

impl ScriptReader {
    /// Reads a script of lengths, and sends a request with the operation `op` for each pair of
    /// lengths.
    pub(super) fn run_lengths(mut self, op: Op, input: BufReader<impl Read>) {
        let mut words = Words::new(input);
        let outcome = match op {
            Op::Set => self.read_pairs(&mut words, op),
            _ => self.read_keys(&mut words, op),
        };
        let read_to_end = outcome.unwrap_or_else(|error| {
            self.count_fault("word", words.count + 1, &error.to_string());
            false
        });
        self.end(read_to_end);
        // Dropping the senders tells the generator threads that the script has ended. The remaining
        // input is read only so that the program that writes it does not fail.
        self.senders.clear();
        while words.next().is_ok_and(|item| item != Item::End) {}
    }

    /// Reads the first line, and sends a request for each length. Returns true if the whole line
    /// was read. Returns false if the line was too long, or if the script reader stopped before the
    /// end of the line, because the load or a generator thread had ended.
    fn read_keys(&mut self, words: &mut Words<impl Read>, op: Op) -> io::Result<bool> {
        let mut number = 0;
        while let Some(word) = words.next_in_line(number)? {
            number += 1;
            let Some(key_len) = self.key_len(number, &word) else {
                continue;
            };
            // Both calls return false if the reader can stop. The second call checks whether the
            // next read may wait for input. If so, it first sends the requests pushed so far.
            if !self.push_pair(op, key_len, 0) || !self.send_before_wait(&words.input) {
                return Ok(false);
            }
        }
        Ok(self.check_count(number))
    }

    /// Reads the first line into memory. Then reads the second line, and sends a request for each
    /// of its lengths. Returns the same as [`Self::read_keys`].
    fn read_pairs(&mut self, words: &mut Words<impl Read>, op: Op) -> io::Result<bool> {
        let mut key_lens: Vec<u8> = Vec::new();
        while let Some(word) = words.next_in_line(key_lens.len() as u64)? {
            let number = key_lens.len() as u64 + 1;
            key_lens.push(self.key_len(number, &word).unwrap_or(MALFORMED));
        }
        let mut is_complete = self.check_count(key_lens.len() as u64);
        if !is_complete {
            // Otherwise the rest of the first line would be read as lengths of values.
            words.skip_line()?;
        }
        let mut number = 0;
        while let Some(word) = words.next_in_line(number)? {
            let key_len = key_lens.get(number as usize).copied();
            number += 1;
            let Some(key_len) = key_len else {
                // The second line is longer: the first line has no length with this number.
                self.count_fault(VALUE_LENGTH, number, "there is no such key length");
                continue;
            };
            let Some(value_len) = self.length(VALUE_LENGTH, number, &word, 0, self.value_len_max)
            else {
                continue;
            };
            if key_len == MALFORMED {
                continue;
            }
            if !self.push_pair(op, key_len, value_len) || !self.send_before_wait(&words.input) {
                return Ok(false);
            }
        }
        is_complete &= self.check_count(number);
        // If the first line is longer, the second line has no lengths with these numbers.
        for missing in number..key_lens.len() as u64 {
            self.count_fault(KEY_LENGTH, missing + 1, "there is no such value length");
        }
        Ok(is_complete)
    }

    /// Returns the key length that a word of the first line states. A malformed word is counted,
    /// and None is returned.
    fn key_len(&self, number: u64, word: &[u8]) -> Option<u8> {
        let len = self.length(KEY_LENGTH, number, word, 1, KEY_LEN_MAX as u32)?;
        u8::try_from(len).ok()
    }

    /// Returns the length that a word states, minus the NUL byte. If the word is not a number, or
    /// the result is not between `least` and `most`, counts the word as malformed and returns None.
    /// `kind` and `number` identify the word in the message ([`Self::count_fault`]).
    fn length(&self, kind: &str, number: u64, word: &[u8], least: u32, most: u32) -> Option<u32> {
        let text = String::from_utf8_lossy(word);
        let len = text.parse::<u32>().ok().and_then(|it| it.checked_sub(1));
        let len = len.filter(|len| (least..=most).contains(len));
        if len.is_none() {
            let (least, most) = (u64::from(least) + 1, u64::from(most) + 1);
            let fault = format!("`{text}` is not a length from {least} to {most}");
            self.count_fault(kind, number, &fault);
        }
        len
    }

    /// Returns true if a line with `count` lengths is not too long. Otherwise counts a fault. A
    /// `count` of [`SCRIPT_LENGTHS_MAX`] is already too long: the reader stops after this many
    /// lengths, and does not find out whether the line has more.
    fn check_count(&self, count: u64) -> bool {
        let is_within = count < SCRIPT_LENGTHS_MAX as u64;
        if !is_within {
            let fault = format!("a line has at most {} lengths", SCRIPT_LENGTHS_MAX - 1);
            self.count_fault("length", count, &fault);
        }
        is_within
    }

    /// Adds the request of a pair of lengths to the batch of its generator thread ([`Self::push`]).
    /// Returns false if the reader can stop, because the request lies after the end of the load or
    /// the thread has ended.
    fn push_pair(&mut self, op: Op, key_len: u8, value_len: u32) -> bool {
        let key = &KEY[..key_len.into()];
        let request = ScriptRequest {
            intended_ns: self.times.next_ns(None),
            connection: self.connection_of(key),
            op,
            item: ScriptItem {
                keys: key.into(),
                key_count: 1,
                value_len,
                ttl_s: 0,
            },
        };
        self.push(request)
    }
}

/// The next item of the input.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// A word, cut after [`SCRIPT_LENGTH_DIGITS_MAX`] bytes.
    Word(Vec<u8>),
    LineEnd,
    /// The end of the input.
    End,
}

/// Divides the input into words and lines. Only the current word is kept in memory.
struct Words<R> {
    input: BufReader<R>,
    /// The number of words read.
    count: u64,
}

impl<R: Read> Words<R> {
    fn new(input: BufReader<R>) -> Self {
        Self { input, count: 0 }
    }

    /// Returns the next word of a line. `before` is the number of words of the line that were read
    /// already. Skips empty lines before the first word. None: the line has ended, or
    /// [`SCRIPT_LENGTHS_MAX`] of its words were read.
    fn next_in_line(&mut self, before: u64) -> io::Result<Option<Vec<u8>>> {
        if before >= SCRIPT_LENGTHS_MAX as u64 {
            return Ok(None);
        }
        loop {
            match self.next()? {
                Item::Word(word) => return Ok(Some(word)),
                Item::LineEnd if before == 0 => {}
                Item::LineEnd | Item::End => return Ok(None),
            }
        }
    }

    /// Skips the rest of a line.
    fn skip_line(&mut self) -> io::Result<()> {
        while let Item::Word(_) = self.next()? {}
        Ok(())
    }

    /// Returns the next word, line end, or end of the input.
    fn next(&mut self) -> io::Result<Item> {
        let mut word = Vec::new();
        loop {
            let byte = self.input.fill_buf()?.first().copied();
            let is_space = byte.is_none_or(|byte| byte.is_ascii_whitespace());
            if is_space && !word.is_empty() {
                // The byte after the word stays in the input, because it may be a line end.
                self.count += 1;
                return Ok(Item::Word(word));
            }
            let Some(byte) = byte else {
                return Ok(Item::End);
            };
            self.input.consume(1);
            match byte {
                b'\n' => return Ok(Item::LineEnd),
                _ if !is_space && word.len() < SCRIPT_LENGTH_DIGITS_MAX => word.push(byte),
                // A blank before the word, or a byte that is cut off from a long word.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IntendedTimes, ScriptReport, ScriptSource};
    use super::*;
    use crate::config::{Config, Protocol, Rate};
    use crate::summary::ScriptSummary;

    /// Reads a script of lengths. Returns the lengths of the keys and values of its requests, and
    /// the counts.
    fn read(script: &str, op: Op) -> (Vec<(usize, u32)>, ScriptSummary) {
        let mut config = Config::new("127.0.0.1:1".parse().unwrap());
        (config.rate, config.connections) = (Rate::Max, 1);
        let (sender, batches) = std::sync::mpsc::sync_channel(1000);
        let report = ScriptReport::default();
        let reader = ScriptReader {
            protocol: Protocol::Text,
            connections: 1,
            value_len_max: 1000,
            first_connections: vec![0],
            senders: vec![sender],
            pending: vec![Vec::new()],
            times: IntendedTimes::new(&config).unwrap(),
            end_ns: 1,
            report: report.clone(),
        };
        // The small buffer divides words, so that one word needs several reads.
        let buffer_len = 3;
        reader.run_lengths(op, BufReader::with_capacity(buffer_len, script.as_bytes()));
        let mut source = ScriptSource::new(batches, false);
        let mut requests = Vec::new();
        while let Some(request) = source.pop() {
            assert_eq!(request.op, op);
            assert!(request.item.keys.iter().all(|&byte| byte == b'K'));
            requests.push((request.item.keys.len(), request.item.value_len));
        }
        (requests, report.summary())
    }

    #[test]
    fn lengths_of_operations_are_one_less_than_those_in_the_script() {
        for script in ["31 2 251\n120 1 1001\n\n", "\n31  2\t251 \r\n120 1 1001"] {
            let (sets, summary) = read(script, Op::Set);
            assert_eq!(sets, [(30, 119), (1, 0), (250, 1000)]);
            assert_eq!((summary.operations, summary.malformed), (3, 0));
            assert!(summary.ended);
            for op in [Op::Get, Op::Delete] {
                let (requests, summary) = read(script, op);
                assert_eq!(requests, [(30, 0), (1, 0), (250, 0)]);
                assert!(summary.ended);
            }
        }
    }

    #[test]
    fn malformed_lengths_are_skipped_and_counted_with_their_numbers() {
        let script = "0 1 252 x -7 99999999999999999999999 10 11\n1 1 1 1 1 1 0\n";
        let (gets, summary) = read(script, Op::Get);
        assert_eq!(gets, [(9, 0), (10, 0)]);
        assert_eq!(
            summary.faults,
            [
                "key length 1: `0` is not a length from 2 to 251",
                "key length 2: `1` is not a length from 2 to 251",
                "key length 3: `252` is not a length from 2 to 251",
                "key length 4: `x` is not a length from 2 to 251",
                "key length 5: `-7` is not a length from 2 to 251",
                "key length 6: `99999999999999999999` is not a length from 2 to 251",
            ]
        );
        let (sets, summary) = read("10 20 30\n1 1002\n", Op::Set);
        assert_eq!(sets, [(9, 0)]);
        assert_eq!(
            summary.faults,
            [
                "value length 2: `1002` is not a length from 1 to 1001",
                "key length 3: there is no such value length",
            ]
        );
        let (sets, summary) = read("10\n1 2\n", Op::Set);
        assert_eq!((sets.len(), summary.operations), (1, 1));
        assert_eq!(
            summary.faults,
            ["value length 2: there is no such key length"]
        );
    }

    /// Regression test. The rest of a first line that is too long was read as lengths of values.
    #[test]
    fn the_rest_of_a_first_line_that_is_too_long_is_skipped() {
        let first_line = "11 ".repeat(SCRIPT_LENGTHS_MAX) + "21 31";
        let (sets, summary) = read(&format!("{first_line}\n121 131\n"), Op::Set);
        assert_eq!(sets, [(10, 120), (10, 130)]);
        assert!(!summary.ended);
        let (count, most) = (SCRIPT_LENGTHS_MAX, SCRIPT_LENGTHS_MAX - 1);
        assert_eq!(
            summary.faults[0],
            format!("length {count}: a line has at most {most} lengths")
        );
    }
}
