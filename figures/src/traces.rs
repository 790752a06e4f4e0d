//! The real traces, where they are at hand.
//!
//! They lie beside the project and are no part of it; without them the figures run on the
//! generators alone and say so. A request past the end of the disk is an error that names its line,
//! unless the user asks for wrapping or scaling.

use crate::error::FigureError;
use nearhead_sim::trace::{
    AddressFit, AddressOptions, TraceOptions, TraceReader, TraceRequest, summarize,
};
use std::path::{Path, PathBuf};

/// The trace of T8 in Manylogs' table I, in the folder of traces.
const DTRS: &str = "ms-prod-dtrs/DTRS1K.trace.zst";
/// Other real traces, for figures over hours.
const OTHERS: [(&str, &str); 2] = [
    ("cloudphysics", "cloudphysics/cloudPhysicsIO.csv.zst"),
    ("msr-cut", "heimdall-msr/msr.cut.per_10k.rw_20_80.105.trace.zst"),
];
/// Requests start and end on multiples of this.
const ALIGN_BYTES: u32 = 512;

/// What to do with requests past the end of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// They are an error.
    #[default]
    Error,
    /// Addresses modulo the size.
    Wrap,
    /// The span of the trace is stretched or shrunk to the disk.
    Scale,
}

/// Where the traces are.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    /// Their folder; `None` if there is none.
    pub folder: Option<PathBuf>,
    /// What to do with requests past the end of the disk.
    pub fit: Fit,
}

/// A trace, read.
#[derive(Clone, Debug)]
pub struct RealTrace {
    /// As it is called in tables.
    pub name: String,
    /// In order of arrival.
    pub requests: Vec<TraceRequest>,
}

impl Traces {
    /// The folder of traces beside the project, if it is there: `$NEARHEAD_SHARED/traces`, or
    /// `../shared/traces` from the working directory.
    pub fn beside_the_project() -> Self {
        let shared = std::env::var_os("NEARHEAD_SHARED").map_or("../shared".into(), PathBuf::from);
        let folder = Some(shared.join("traces")).filter(|folder| folder.is_dir());
        Self { folder, fit: Fit::Error }
    }

    /// Whether any of them is there.
    pub fn any_at_hand(&self) -> bool {
        let mut known = OTHERS.iter().map(|(_, path)| *path).chain([DTRS]);
        self.folder.as_ref().is_some_and(|folder| known.any(|path| folder.join(path).exists()))
    }

    /// The Development Tools Release Server's five minutes on a volume of `size_bytes`.
    pub fn dtrs(&self, size_bytes: u64) -> Result<Option<RealTrace>, FigureError> {
        self.read("dtrs", DTRS, size_bytes)
    }

    /// The other real traces on a volume of `size_bytes`.
    pub fn others(&self, size_bytes: u64) -> Result<Vec<RealTrace>, FigureError> {
        let read = OTHERS.iter().map(|(name, path)| self.read(name, path, size_bytes));
        let found: Result<Vec<Option<RealTrace>>, FigureError> = read.collect();
        Ok(found?.into_iter().flatten().collect())
    }

    fn read(
        &self,
        name: &str,
        path: &str,
        size_bytes: u64,
    ) -> Result<Option<RealTrace>, FigureError> {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join(path)) else {
            return Ok(None);
        };
        if !path.exists() {
            return Ok(None);
        }
        let fit = match self.fit {
            Fit::Error => AddressFit::Error,
            Fit::Wrap => AddressFit::Wrap,
            Fit::Scale => AddressFit::Scale { span_bytes: span_of(&path)? },
        };
        let address =
            AddressOptions { capacity_bytes: Some(size_bytes), fit, align_bytes: ALIGN_BYTES };
        let reader = TraceReader::open(&path, TraceOptions { address, ..TraceOptions::default() })?;
        Ok(Some(RealTrace { name: name.to_owned(), requests: reader.collect::<Result<_, _>>()? }))
    }
}

fn span_of(path: &Path) -> Result<u64, FigureError> {
    let mut reader = TraceReader::open(path, TraceOptions::default())?;
    Ok(summarize(&mut reader)?.span_bytes)
}
