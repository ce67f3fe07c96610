//! The result of a turn of a session: the input that it consumed, and what it needs next.

/// What a session needs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More input. A session with open tickets also gets a turn after a completion. A runtime with
    /// a task for each connection (`threads`, `fibres`) waits for that completion first, and reads
    /// no input before it.
    Input,
    /// Bytes of a value. The runtime passes them as input, or saves a copy by receiving them
    /// directly into [`Session::upload_buffer`](crate::Session::upload_buffer).
    Upload,
    /// Space in the output, or an empty output: a session that begins a read only when its peer has
    /// taken the replies so far needs this although the output has space. The runtime sends the
    /// output, then continues with the same input.
    OutputSpace,
    /// Another turn with the same input, after other connections have had a turn.
    Yield,
    /// Memory that slower peers hold, or that is about to be reclaimed. The session gets another
    /// turn with the same input once some memory is free. A session may also return this if other
    /// workers keep it from changing an item. The runtime does not distinguish the two: in both
    /// cases it waits for the same time, and closes connections that hold memory and whose peers
    /// are inactive.
    Memory,
    /// The result of one of its open [tickets](crate::Ticket). The session gets another turn with
    /// the same input once a result has been delivered.
    Completion,
    /// To be closed. The runtime sends the output, then closes the connection.
    Close,
}

/// The result of [`Worker::answer`](crate::Worker::answer).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The number of bytes of input that have been processed. The runtime removes them.
    pub consumed: usize,
    /// What the session needs to continue.
    pub next: Next,
}
