//! Interleaves a mapping over the NUMA nodes of the machine.
//!
//! By default the kernel allocates a page on the node of the thread that touches the page first.
//! One thread, that of page maintenance (`page_maintenance.rs`), populates pages before workers
//! need them. So all memory of the cache would be on one node, and all workers would use the memory
//! controller of that node. With the policy `MPOL_INTERLEAVE` (`set_mempolicy(2)`), consecutive
//! pages are on different nodes, and each node has an equal part of the memory.

use std::ptr::{self, NonNull};

/// Number of bits in a word of a node set.
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
/// Maximum number of nodes that a kernel can be configured for (`CONFIG_NODES_SHIFT` is at most
/// 10).
const NODES_MAX: usize = 1024;

/// The flag with which `get_mempolicy` returns the nodes that the process may use
/// (`MPOL_F_MEMS_ALLOWED`, linux/mempolicy.h).
const MEMS_ALLOWED: libc::c_ulong = 1 << 2;

/// A set of nodes in the kernel's format: bit N is set if node N is in the set.
type Nodes = [libc::c_ulong; NODES_MAX / WORD_BITS];

/// Interleaves the pages of `len` bytes from `start`, which is aligned to a page, over all nodes
/// that this process may use. Does nothing if another policy was set for the process (`numactl`),
/// or if the kernel or the system call filter of a container denies the call. Makes system calls.
pub(super) fn interleave(start: NonNull<u8>, len: usize) {
    if let Some(nodes) = allowed_nodes()
        && has_default_policy()
    {
        // SAFETY: the set outlives the call. The kernel reads one bit less than the number passed
        // (`mbind(2)`, "maxnode"), so the size of the set in bits plus one is passed. A policy
        // determines where new pages are allocated, and changes no contents, whatever the range.
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

/// Returns the nodes whose memory this process may use. `None` if the kernel does not say.
fn allowed_nodes() -> Option<Nodes> {
    let mut nodes: Nodes = [0; NODES_MAX / WORD_BITS];
    // SAFETY: the set is writable and outlives the call. Its size in bits plus one is passed, of
    // which the kernel subtracts one, as in `interleave`. No address is passed.
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

/// Whether the memory policy of this thread is the default one.
fn has_default_policy() -> bool {
    let mut mode = libc::MPOL_DEFAULT;
    // SAFETY: the mode is writable and outlives the call. Neither a set nor an address is passed.
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
        if allowed_nodes().is_none() {
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
        // Each line begins with the address of a mapping and its policy (`numa_maps`, proc(5)).
        let at = mapping.start().as_ptr().addr();
        let mut areas = maps.lines().filter_map(|line| {
            let (start, about) = line.split_once(' ')?;
            Some((usize::from_str_radix(start, 16).ok()?, about))
        });
        // The kernel may show the new mapping as part of one that begins at a lower address.
        let area = areas.rfind(|(start, _)| *start <= at);
        let (_, about) = area.unwrap();
        assert!(about.starts_with("interleave"), "{about}");
    }
}
