//! Spreads a mapping over the machine's memory nodes (NUMA).
//!
//! The kernel takes a page from the node of the thread that touches it first. That is the main
//! thread, which populates pages before workers need them: all of the cache would lie on one node,
//! whose memory controller every worker would then use. Interleaved, page by page, each node has an
//! equal part (`set_mempolicy(2)`, `MPOL_INTERLEAVE`).

use std::ptr::{self, NonNull};

/// Bits of a word of a set of nodes.
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
/// Most nodes the kernel can be built for (`CONFIG_NODES_SHIFT` is at most 10).
const NODES_MAX: usize = 1024;

/// Asks `get_mempolicy` for the nodes that may be used (`MPOL_F_MEMS_ALLOWED`, linux/mempolicy.h).
const MEMS_ALLOWED: libc::c_ulong = 1 << 2;

/// A set of nodes, as the kernel reads and writes it.
type Nodes = [libc::c_ulong; NODES_MAX / WORD_BITS];

/// Spreads `len` bytes from `start`, a page's beginning, over all nodes this process may use. A
/// hint: where a policy has been chosen for the process already (`numactl`), or the kernel refuses
/// (containers' filters do), nothing changes. It calls the kernel.
pub(super) fn interleave(start: NonNull<u8>, len: usize) {
    if let Some(nodes) = segment_limit()
        && has_default_policy()
    {
        // SAFETY: the set outlives the call, and its size in bits is given, plus the one that the
        // kernel takes off (`mbind(2)`, "maxnode"). A policy changes where pages come from, no
        // contents, whatever the range is.
        let _ = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                start.as_ptr(),
                len,
                libc::MPOL_INTERLEAVE,
                nodes.as_ptr(),
                NODES_MAX + 1,
                0,
            )
        };
    }
}

/// The nodes this process may have memory from.
fn segment_limit() -> Option<Nodes> {
    let mut nodes: Nodes = [0; NODES_MAX / WORD_BITS];
    // SAFETY: the set is writable, outlives the call, and its size in bits is given, plus one as
    // above; no address is asked about.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            ptr::null_mut::<libc::c_int>(),
            nodes.as_mut_ptr(),
            NODES_MAX + 1,
            ptr::null_mut::<u8>(),
            MEMS_ALLOWED,
        )
    };
    (failed == 0).then_some(nodes)
}

/// Whether no other policy has been chosen for this thread.
fn has_default_policy() -> bool {
    let mut mode = libc::MPOL_DEFAULT;
    // SAFETY: the mode is writable and outlives the call; neither a set nor an address is given.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            &raw mut mode,
            ptr::null_mut::<libc::c_ulong>(),
            0,
            ptr::null_mut::<u8>(),
            0,
        )
    };
    failed == 0 && mode == libc::MPOL_DEFAULT
}

#[cfg(test)]
mod tests {
    use super::super::Mapping;
    use super::*;

    #[test]
    fn a_mapping_is_spread_over_all_memory_nodes() {
        if segment_limit().is_none() {
            eprintln!("skipped: the kernel refuses memory policies");
            return;
        }
        if !has_default_policy() {
            eprintln!("skipped: another memory policy was chosen for this process");
            return;
        }
        let mapping = Mapping::reserve(4 << 20).unwrap();
        mapping.populate(0, mapping.len());
        let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") else {
            eprintln!("skipped: no /proc/self/numa_maps");
            return;
        };
        // Each line begins with the address of an area and its policy (`numa_maps`, proc(5)).
        let at = mapping.start().as_ptr().addr();
        let mut areas = maps.lines().filter_map(|line| {
            let (start, about) = line.split_once(' ')?;
            Some((usize::from_str_radix(start, 16).ok()?, about))
        });
        let area = areas.rfind(|(start, _)| *start <= at);
        let (_, about) = area.unwrap();
        assert!(about.starts_with("interleave"), "{about}");
    }
}
