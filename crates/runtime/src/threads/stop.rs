//! How it ends: who has nothing under way is told that nothing more will be read, until nobody is
//! left; who has is given time.

use super::attend::Attendant;
use crate::limits::DRAIN_NS;

impl Attendant {
    /// Rouses who is to end; true when nobody is left, and no thread.
    ///
    /// An idle conversation still answers what had come by then: its socket gives that out before
    /// the end. One that is not idle finds out by itself when it is; if it misses that, the next
    /// look does not.
    pub(super) fn drain(&mut self, now_ns: u64) -> bool {
        let by_ns = *self.stop_by_ns.get_or_insert(now_ns + DRAIN_NS);
        let is_out_of_time = now_ns >= by_ns;
        let live = &self.hall.live;
        for peer in live.peers(|peer| is_out_of_time || peer.is_idle()) {
            if is_out_of_time {
                peer.shut();
            } else {
                peer.transport.end_input();
            }
        }
        self.join();
        self.hall.live.is_empty()
    }
}
