//! Traces: files in the published forms, and columns of requests from and to Python.

use crate::told;
use nearhead_disk::Nanos;
use nearhead_sim::trace::{AddressFit, Format, TraceOptions, TraceRequest, summarize};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Requests that are kept in memory at most: 64 bytes each.
const REQUESTS_MAX: usize = 1 << 27;
/// A time that is not known.
const UNKNOWN_NS: u64 = u64::MAX;

/// A trace.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct Requests {
    pub(crate) requests: nearhead_study::Requests,
}

/// How a trace is read, as Python describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    format: Option<String>,
    strict: bool,
    device: Option<u32>,
    limit: Option<u64>,
    time_scale: f64,
    fit: String,
}

impl Reading {
    pub(crate) fn options(&self) -> Result<TraceOptions, String> {
        let format = self.format.as_deref().map(str::parse::<Format>).transpose();
        let mut options = TraceOptions {
            format: format.map_err(|error| error.to_string())?,
            strict: self.strict,
            device: self.device,
            time_scale: self.time_scale,
            requests_max: self.limit,
            ..TraceOptions::default()
        };
        options.address.fit = match self.fit.as_str() {
            "error" => AddressFit::Error,
            "wrap" => AddressFit::Wrap,
            "scale" => AddressFit::Scale { span_bytes: 0 },
            found => {
                return Err(format!(
                    "trace: expected fit \"error\", \"wrap\" or \"scale\", found {found:?}"
                ));
            }
        };
        Ok(options)
    }

    fn parse(text: &str) -> PyResult<TraceOptions> {
        let reading: Self = serde_json::from_str(text).map_err(told)?;
        // What is only looked at is to fit no disk.
        let mut options = reading.options().map_err(told)?;
        options.address.fit = AddressFit::Error;
        Ok(options)
    }
}

#[pymethods]
impl Requests {
    /// The file at `path`.
    #[staticmethod]
    fn file(path: PathBuf) -> Self {
        Self { requests: nearhead_study::Requests::File(path) }
    }

    /// Columns of numbers in the bytes of this machine, 64 bits each but for the flags: bit 0 a write, bit 1 a flush before it, bit 2 FUA, bit 3 nobody
    /// waits for it. Times in ns.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "one for each column")]
    fn columns(
        py: Python<'_>,
        name: String,
        at_ns: &[u8],
        offset_bytes: &[u8],
        len_bytes: &[u8],
        flags: &[u8],
        device: &[u8],
        process: &[u8],
        response_ns: &[u8],
        think_ns: &[u8],
    ) -> PyResult<Self> {
        let columns = [at_ns, offset_bytes, len_bytes, device, process, response_ns, think_ns];
        let requests = py
            .detach(|| requests_of(columns, flags))
            .map_err(|problem| told(format!("trace {name}: {problem}")))?;
        let requests = Arc::new(requests);
        Ok(Self { requests: nearhead_study::Requests::Memory { name, requests } })
    }

    /// What it is called.
    fn name(&self) -> String {
        self.requests.name()
    }

    /// What is in it, as JSON; read as `reading` says.
    fn summary(&self, py: Python<'_>, reading: &str) -> PyResult<String> {
        let options = Reading::parse(reading)?;
        let summary = py.detach(|| summarize(&mut self.requests.read(options)?)).map_err(told)?;
        serde_json::to_string(&summary).map_err(told)
    }

    /// All its requests as columns, as [`Requests::columns`] takes them, by their names.
    fn to_columns<'py>(&self, py: Python<'py>, reading: &str) -> PyResult<Bound<'py, PyDict>> {
        let options = Reading::parse(reading)?;
        let columns = py.detach(|| Columns::read(&self.requests, options)).map_err(told)?;
        columns.to_dict(py)
    }

    /// The requests that are in memory, as [`Requests::columns`] takes them and in the order in which they are there; none of a file.
    fn in_memory<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let nearhead_study::Requests::Memory { requests, .. } = &self.requests else {
            return Ok(None);
        };
        let columns = py.detach(|| {
            let mut columns = Columns::default();
            requests.iter().for_each(|request| columns.push(request));
            columns
        });
        columns.to_dict(py).map(Some)
    }
}

/// Requests of these columns.
fn requests_of(columns: [&[u8]; 7], flags: &[u8]) -> Result<Vec<TraceRequest>, String> {
    if flags.len() > REQUESTS_MAX {
        let found = flags.len();
        return Err(format!(
            "expected at most {REQUESTS_MAX} requests in memory, found {found}; write them to a file"
        ));
    }
    let mut rows = Vec::with_capacity(flags.len());
    if let Some(short) = columns.iter().find(|column| column.len() != flags.len() * 8) {
        return Err(format!(
            "expected columns of the same length, found one of {} and one of {} requests",
            flags.len(),
            short.len() / 8
        ));
    }
    let narrow = |value: u64, what: &str, row: usize| {
        u32::try_from(value)
            .map_err(|_| format!("request {}: expected {what} below 2^32, found {value}", row + 1))
    };
    let known = |value: u64| (value != UNKNOWN_NS).then_some(Nanos(value));
    for (row, flags) in flags.iter().enumerate() {
        let word = |column: usize| {
            let bytes = columns[column].get(row * 8..row * 8 + 8);
            bytes.and_then(|bytes| u64::read_from_bytes(bytes).ok()).unwrap_or_default()
        };
        rows.push(TraceRequest {
            at: Nanos(word(0)),
            offset_bytes: word(1),
            len_bytes: narrow(word(2), "a length in bytes", row)?,
            device: narrow(word(3), "a device", row)?,
            process: narrow(word(4), "a process", row)?,
            write: flags & 1 != 0,
            flush: flags & 2 != 0,
            fua: flags & 4 != 0,
            in_background: flags & 8 != 0,
            response: known(word(5)),
            think: known(word(6)),
        });
    }
    Ok(rows)
}

#[derive(Default)]
struct Columns {
    at_ns: Vec<u64>,
    offset_bytes: Vec<u64>,
    len_bytes: Vec<u64>,
    device: Vec<u64>,
    process: Vec<u64>,
    response_ns: Vec<u64>,
    think_ns: Vec<u64>,
    flags: Vec<u8>,
}

impl Columns {
    fn read(requests: &nearhead_study::Requests, options: TraceOptions) -> Result<Self, String> {
        let mut columns = Self::default();
        for request in requests.read(options).map_err(|error| error.to_string())? {
            let request = request.map_err(|error| error.to_string())?;
            if columns.flags.len() >= REQUESTS_MAX {
                return Err(format!(
                    "trace {}: expected at most {REQUESTS_MAX} requests in memory, found more; give a limit",
                    requests.name()
                ));
            }
            columns.push(&request);
        }
        Ok(columns)
    }

    fn push(&mut self, request: &TraceRequest) {
        let known = |time: Option<Nanos>| time.map_or(UNKNOWN_NS, |time| time.0);
        self.at_ns.push(request.at.0);
        self.offset_bytes.push(request.offset_bytes);
        self.len_bytes.push(u64::from(request.len_bytes));
        self.device.push(u64::from(request.device));
        self.process.push(u64::from(request.process));
        self.response_ns.push(known(request.response));
        self.think_ns.push(known(request.think));
        let flags = [request.write, request.flush, request.fua, request.in_background];
        let bits = flags.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit);
        self.flags.push(bits.sum());
    }

    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, column) in [
            ("at_ns", &self.at_ns),
            ("offset_bytes", &self.offset_bytes),
            ("len_bytes", &self.len_bytes),
            ("device", &self.device),
            ("process", &self.process),
            ("response_ns", &self.response_ns),
            ("think_ns", &self.think_ns),
        ] {
            dict.set_item(name, PyBytes::new(py, column.as_bytes()))?;
        }
        dict.set_item("flags", PyBytes::new(py, &self.flags))?;
        Ok(dict)
    }
}

/// Names of the forms that a file may have.
#[pyfunction]
pub(crate) fn formats() -> Vec<&'static str> {
    Format::ALL.iter().map(|format| format.name()).collect()
}
