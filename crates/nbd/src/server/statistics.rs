//! What the server counts.

/// Counts since the start; all only grow, but for `connections_open`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Clients connected now.
    pub connections_open: u64,
    /// Clients that were served.
    pub connections_accepted: u64,
    /// Clients that were turned away because the server was full.
    pub connections_refused: u64,
    /// Clients that were cut off because they held memory and made no progress.
    pub connections_stalled: u64,
    /// Clients that were let go before their handshake was over: it took too long, or longer than
    /// others while there was no place for a newcomer.
    pub connections_unfinished: u64,
    /// Read requests.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Trim requests.
    pub trims: u64,
    /// Write-zeroes requests.
    pub write_zeroes: u64,
    /// Cache and block status requests.
    pub other_requests: u64,
    /// Requests that the service failed.
    pub errors: u64,
    /// Bytes returned to clients by reads.
    pub read_bytes: u64,
    /// Bytes taken from clients by writes.
    pub written_bytes: u64,
}

impl Statistics {
    /// All requests that reached the service.
    pub fn requests(&self) -> u64 {
        self.reads
            + self.writes
            + self.flushes
            + self.trims
            + self.write_zeroes
            + self.other_requests
    }
}
