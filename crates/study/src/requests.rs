//! Where the requests of a replay come from: a file in one of the published forms, read anew for each run, or requests in memory.

use nearhead_sim::trace::{
    AddressFit, Input, TraceError, TraceOptions, TraceReader, TraceRequest, summarize,
};
use std::path::PathBuf;
use std::sync::Arc;

/// A trace.
#[derive(Clone, Debug)]
pub enum Requests {
    /// A file, as [`TraceReader::open`] takes it.
    File(PathBuf),
    /// Requests that a program has, and what they are called.
    Memory {
        /// In messages and results.
        name: String,
        /// In any order.
        requests: Arc<Vec<TraceRequest>>,
    },
}

impl Requests {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Memory { name, .. } => name.clone(),
        }
    }

    /// Reads it from the start.
    ///
    /// # Errors
    /// Those of [`TraceReader`].
    pub fn read(&self, options: TraceOptions) -> Result<TraceReader, TraceError> {
        match self {
            Self::File(path) => TraceReader::new(Input::open(path)?, options),
            Self::Memory { name, requests } => {
                let requests = Arc::clone(requests);
                let each = (0..requests.len()).map(move |index| requests[index]);
                TraceReader::of_requests(name, each, options)
            }
        }
    }

    /// The options with the span of this trace, where they scale it.
    ///
    /// # Errors
    /// Those of reading it: to be scaled it must be read once before.
    pub fn measured(&self, mut options: TraceOptions) -> Result<TraceOptions, TraceError> {
        if matches!(options.address.fit, AddressFit::Scale { .. }) {
            options.address.fit = AddressFit::Error;
            let span_bytes = summarize(&mut self.read(options.clone())?)?.span_bytes;
            options.address.fit = AddressFit::Scale { span_bytes };
        }
        Ok(options)
    }
}
