//! Interleaves a mapping over the NUMA nodes of the machine.
//!
//! The kernel allocates a page on the node of the thread that touches it first. The main thread
//! populates pages before workers need them, so without interleaving the whole cache would be on
//! one node, and all workers would use its memory controller. With interleaving by pages, each node
//! has an equal part (`set_mempolicy(2)`, `MPOL_INTERLEAVE`).

use std::ptr::{self, NonNull};

/// Bits per word of a node set.
const WORD_BITS: usize = libc::c_ulong::BITS as usize;
/// Maximum number of nodes that a kernel can be configured for (`CONFIG_NODES_SHIFT` is at most
/// 10).
const NODES_MAX: usize = 1024;

/// Makes `get_mempolicy` return the allowed nodes (`MPOL_F_MEMS_ALLOWED`, linux/mempolicy.h).
const MEMS_ALLOWED: libc::c_ulong = 1 << 2;

/// A node set in the kernel's format.
type Nodes = [libc::c_ulong; NODES_MAX / WORD_BITS];

/// Interleaves `len` bytes from `start`, which is aligned to a page, over all nodes that this
/// process may use. A hint: nothing changes if a policy was set for the process (`numactl`), or if
/// the kernel or a container's filter denies the call. Makes a system call.
pub(super) fn interleave(start: NonNull<u8>, len: usize) {
    if let Some(nodes) = allowed_nodes()
        && has_default_policy()
    {
        // SAFETY: the set outlives the call, and its size in bits is passed, plus the one that the
        // kernel subtracts (`mbind(2)`, "maxnode"). A policy changes the origin of pages and no
        // contents, whatever the range.
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

/// The nodes whose memory this process may use.
fn allowed_nodes() -> Option<Nodes> {
    let mut nodes: Nodes = [0; NODES_MAX / WORD_BITS];
    // SAFETY: the set is writable and outlives the call; its size in bits is passed, plus one as
    // above; no address is passed.
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
    // SAFETY: the mode is writable and outlives the call; neither a set nor an address is passed.
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
        let area = areas.rfind(|(start, _)| *start <= at);
        let (_, about) = area.unwrap();
        assert!(about.starts_with("interleave"), "{about}");
    }
}
