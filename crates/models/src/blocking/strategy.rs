//! Where a simulated server waits for its disk.

use super::files::Files;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    /// One worker opens and reads everything itself.
    Naive,
    /// Helpers find names and read what is not resident, as far as the worker knows (`mincore`).
    /// The worker opens itself, and waits for the lock that a helper holds while it reads.
    Flash,
    /// As `Flash`, but helpers open, too.
    FdPass,
    /// Helpers open. The worker does not know what is resident, and waits for what is not.
    NoMmap,
    /// As `FdPass`, and names whose metadata are cached need no helper.
    Nowait,
    /// A process for each connection; it opens itself, and waits for the same lock.
    Processes,
    /// A process for each connection, whose files a server beside it opens.
    ProcessesFdPass,
}

impl Strategy {
    pub(super) const ALL: [(&'static str, Self); 7] = [
        ("naive", Self::Naive),
        ("flash", Self::Flash),
        ("fd-pass", Self::FdPass),
        ("no-mmap", Self::NoMmap),
        ("nowait", Self::Nowait),
        ("processes", Self::Processes),
        ("processes-fd-pass", Self::ProcessesFdPass),
    ];

    pub(super) fn is_processes(self) -> bool {
        matches!(self, Self::Processes | Self::ProcessesFdPass)
    }

    pub(super) fn takes_lock(self) -> bool {
        matches!(self, Self::Flash | Self::Processes)
    }

    /// Whether the worker waits for data that are not in memory.
    pub(super) fn waits_for_data(self) -> bool {
        matches!(self, Self::Naive | Self::NoMmap)
    }
}

/// Which opens wait while a file is read from the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Those of the same file.
    File,
    /// Those of its folder.
    Folder,
    /// All.
    Tree,
}

impl Lock {
    pub(super) const ALL: [(&'static str, Self); 3] = [
        ("file", Self::File),
        ("folder", Self::Folder),
        ("tree", Self::Tree),
    ];

    pub(super) fn covers(self, held: usize, wanted: usize) -> bool {
        match self {
            Self::File => held == wanted,
            Self::Folder => Files::folder(held) == Files::folder(wanted),
            Self::Tree => true,
        }
    }
}
