//! The list of recency: slots from the most to the least recently used, linked by slot number.

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    is_linked: bool,
}

const UNLINKED: Link = Link {
    newer: NONE,
    older: NONE,
    is_linked: false,
};

/// A doubly linked list of slots. All operations but [`Recency::new`] and iteration take constant
/// time.
#[derive(Debug)]
pub(super) struct Recency {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
}

impl Recency {
    /// An empty list of slots below `slots`, which is less than 2³² − 1.
    pub(super) fn new(slots: usize) -> Self {
        Self {
            links: vec![UNLINKED; slots],
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Adds a slot as the most recently used one. A slot that is already in the list moves.
    pub(super) fn push(&mut self, slot: usize) {
        self.unlink(slot);
        let number = slot as u32;
        self.links[slot] = Link {
            newer: NONE,
            older: self.newest,
            is_linked: true,
        };
        match self.newest {
            NONE => self.oldest = number,
            newest => self.links[newest as usize].newer = number,
        }
        self.newest = number;
    }

    /// Makes a slot the most recently used one if it is in the list.
    pub(super) fn touch(&mut self, slot: usize) {
        if self.links[slot].is_linked {
            self.push(slot);
        }
    }

    /// Removes a slot from the list if it is there.
    pub(super) fn unlink(&mut self, slot: usize) {
        let link = std::mem::replace(&mut self.links[slot], UNLINKED);
        if !link.is_linked {
            return;
        }
        match link.newer {
            NONE => self.newest = link.older,
            newer => self.links[newer as usize].older = link.older,
        }
        match link.older {
            NONE => self.oldest = link.newer,
            older => self.links[older as usize].newer = link.newer,
        }
    }

    /// The least recently used slot.
    pub(super) fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// All slots of the list, the least recently used one first.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = usize> {
        std::iter::successors(self.oldest(), |slot| {
            let newer = self.links[*slot].newer;
            (newer != NONE).then_some(newer as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(recency: &Recency) -> Vec<usize> {
        recency.oldest_first().collect()
    }

    #[test]
    fn slots_move_to_the_front_and_leave_from_anywhere() {
        let mut recency = Recency::new(8);
        for slot in [3, 1, 4, 2] {
            recency.push(slot);
        }
        assert_eq!(order(&recency), [3, 1, 4, 2]);
        recency.touch(3);
        recency.touch(4);
        recency.touch(4);
        assert_eq!(order(&recency), [1, 2, 3, 4]);
        recency.unlink(3);
        recency.unlink(3);
        recency.touch(3);
        assert_eq!(order(&recency), [1, 2, 4]);
        recency.unlink(1);
        recency.unlink(4);
        assert_eq!(order(&recency), [2]);
        recency.unlink(2);
        assert_eq!(recency.oldest(), None);
        recency.push(0);
        assert_eq!(order(&recency), [0]);
    }
}
