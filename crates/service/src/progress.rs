//! What a turn of a session achieved.

/// What a session needs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More input. A session with tickets gets its next turn with a completion too; a runtime with
    /// a task for each connection then reads no input before it.
    Input,
    /// Bytes of an upload: as input, or received directly into
    /// [`Session::upload_buffer`](crate::Session::upload_buffer), which saves a copy.
    Upload,
    /// Space in the output: send it, then continue with the same input.
    OutputSpace,
    /// Another turn with the same input, after other connections have had theirs.
    Yield,
    /// Memory that slower peers hold or that is about to be reclaimed: another turn with the same
    /// input once some of it is free.
    Memory,
    /// The result of one of its open [tickets](crate::Ticket): another turn with the same input
    /// once a result has been delivered.
    Completion,
    /// Nothing: the connection is to be closed after the output has been sent.
    Close,
}

/// The result of [`Worker::answer`](crate::Worker::answer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of input that have been processed.
    pub consumed: usize,
    /// What the session needs to continue.
    pub next: Next,
}
