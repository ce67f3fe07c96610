//! What clients were told, and whether the chains in memory agree.

use std::collections::HashMap;

use chain::{Link, Next, Node};

use super::memory_node::MemoryNode;
use super::{SLOT_LEN, Scenario, head};

#[derive(Debug)]
struct Append {
    chain: u64,
    link: Link,
    /// The node that it must follow, if it is conditional.
    expected: Option<Link>,
    started_ns: u64,
    /// When it ended, and whether it was said to have succeeded.
    end: Option<(u64, bool)>,
}

#[derive(Debug)]
struct Read {
    chain: u64,
    link: Link,
    started_ns: u64,
    ended_ns: u64,
}

#[derive(Default)]
pub(crate) struct History {
    appends: Vec<Append>,
    reads: Vec<Read>,
    complaints: Vec<String>,
}

impl History {
    pub(crate) fn append_started(
        &mut self,
        chain: u64,
        link: Link,
        expected: Option<Link>,
        now_ns: u64,
    ) -> usize {
        self.appends.push(Append {
            chain,
            link,
            expected,
            started_ns: now_ns,
            end: None,
        });
        self.appends.len() - 1
    }

    /// The node that a conditional append must follow.
    pub(crate) fn expected(&self, id: usize) -> Option<Link> {
        self.appends[id].expected
    }

    pub(crate) fn append_ended(&mut self, id: usize, is_success: bool, now_ns: u64) {
        let append = &mut self.appends[id];
        assert!(append.end.is_none(), "an operation ends twice");
        append.end = Some((now_ns, is_success));
    }

    pub(crate) fn read(&mut self, chain: u64, link: Link, started_ns: u64, ended_ns: u64) {
        self.reads.push(Read {
            chain,
            link,
            started_ns,
            ended_ns,
        });
    }

    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    pub(crate) fn acknowledged(&self) -> usize {
        let is_acknowledged =
            |append: &&Append| append.end.is_some_and(|(_, is_success)| is_success);
        self.appends.iter().filter(is_acknowledged).count()
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.len()
    }

    /// Compares everything with the chains in memory.
    pub(crate) fn check(&self, nodes: &[MemoryNode], scenario: &Scenario) -> Result<(), String> {
        if let Some(complaint) = self.complaints.first() {
            return Err(complaint.clone());
        }
        for chain in 1..=scenario.chains {
            let node = &nodes[(chain % nodes.len() as u64) as usize];
            let positions = walk(node, chain)?;
            self.check_appends(chain, &positions)?;
            self.check_order(chain, &positions)?;
        }
        Ok(())
    }

    fn check_appends(&self, chain: u64, positions: &HashMap<Link, usize>) -> Result<(), String> {
        for append in self.appends.iter().filter(|append| append.chain == chain) {
            let position = positions.get(&append.link);
            match (append.end, position) {
                (Some((_, true)), None) => {
                    return Err(format!("an acknowledged node is lost: {append:?}"));
                }
                (Some((_, false)), Some(_)) => {
                    return Err(format!("a failed append is in the chain: {append:?}"));
                }
                _ => {}
            }
            if let (Some(position), Some(expected)) = (position, append.expected)
                && positions.get(&expected).map(|position| position + 1) != Some(*position)
            {
                return Err(format!(
                    "a conditional append follows another node: {append:?}"
                ));
            }
        }
        let known = |link: &Link| {
            *link == head(chain) || self.appends.iter().any(|append| append.link == *link)
        };
        match positions.keys().find(|link| !known(link)) {
            Some(link) => Err(format!("chain {chain} has an unknown node {link:?}")),
            None => Ok(()),
        }
    }

    /// What ended before something else began must come before it in the chain.
    fn check_order(&self, chain: u64, positions: &HashMap<Link, usize>) -> Result<(), String> {
        // Begin, end, position, and whether it is an append.
        let mut events = Vec::new();
        for append in self.appends.iter().filter(|append| append.chain == chain) {
            if let (Some((ended_ns, true)), Some(position)) =
                (append.end, positions.get(&append.link))
            {
                events.push((append.started_ns, ended_ns, *position, true));
            }
        }
        for read in self.reads.iter().filter(|read| read.chain == chain) {
            let Some(position) = positions.get(&read.link) else {
                return Err(format!("a node that is not linked was read: {read:?}"));
            };
            events.push((read.started_ns, read.ended_ns, *position, false));
        }
        for (_, ended_ns, before, _) in &events {
            for (started_ns, _, after, is_append) in &events {
                let is_wrong = before > after || (before == after && *is_append);
                if ended_ns < started_ns && is_wrong {
                    return Err(format!(
                        "chain {chain}: position {before} was known at {ended_ns}, but {after} came \
                         of an operation that began at {started_ns}"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The position of each node of a chain in memory.
fn walk(node: &MemoryNode, chain: u64) -> Result<HashMap<Link, usize>, String> {
    let mut positions = HashMap::new();
    let mut link = head(chain);
    loop {
        let bytes = node.read(link.address(), SLOT_LEN as usize);
        let parsed = Node::parse(&bytes).map_err(|error| format!("{link:?}: {error}"))?;
        if parsed.own != link || parsed.chain != chain {
            return Err(format!("chain {chain} leads to another node: {parsed:?}"));
        }
        if positions.insert(link, positions.len()).is_some() {
            return Err(format!("chain {chain} has a cycle at {link:?}"));
        }
        match parsed.next {
            Next::Node(next) => link = next,
            _ => return Ok(positions),
        }
    }
}
