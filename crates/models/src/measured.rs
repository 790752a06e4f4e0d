//! A model against the drive it models: the same requests, and how the response times compare.
//!
//! A measured trace has one request outstanding at a time: the next one is issued its think time
//! after the completion of the one before, on the drive then and in the model now. The *demerit* is
//! the root mean square horizontal distance of the two distributions of response times (Ruemmler
//! and Wilkes, IEEE Computer, March 1994): of the sorted times, pair by pair. What is compared
//! request by request says how well the model knows where the head and the sectors are.

use crate::hdd::HddModel;
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket};
use serde::Serialize;

/// A request and what the drive did with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRequest {
    /// A write, not a read.
    pub write: bool,
    /// First sector of 512 bytes.
    pub lbn: u64,
    /// Sectors of 512 bytes.
    pub sectors: u32,
    /// Response time of the drive, in ms.
    pub response_ms: f64,
    /// From its completion to the issue of the next request.
    pub think: Nanos,
}

/// Response times of `disk` to `requests`, in ms; `each` is called after each one.
///
/// Errors tell the request that the disk refused, counted from 0.
pub fn replay(
    disk: &mut HddModel,
    requests: impl IntoIterator<Item = MeasuredRequest>,
) -> Result<Vec<f64>, (usize, String)> {
    let mut now = Nanos::ZERO;
    let mut responses = Vec::new();
    for (index, request) in requests.into_iter().enumerate() {
        let (offset, len) = (request.lbn * 512, u64::from(request.sectors) * 512);
        let command = if request.write {
            let parts = vec![Payload::Phantom(len as usize)];
            Command::Write { offset, parts, durable: false }
        } else {
            Command::Read { offset, len: len as u32 }
        };
        let ticket = Ticket::new(CommandId(index as u64));
        disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
        let start = now;
        loop {
            let Some(at) = disk.wake_at() else {
                return Err((index, "the disk never completes it".to_owned()));
            };
            now = at;
            if let Some(completion) = disk.poll(now) {
                completion.result.map_err(|error| (index, error.to_string()))?;
                break;
            }
        }
        responses.push(now.since(start).as_millis_f64());
        now += request.think;
    }
    Ok(responses)
}

/// How modelled response times compare with measured ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Requests.
    pub requests: usize,
    /// Mean response time of the drive, in ms.
    pub measured_ms_mean: f64,
    /// Mean response time of the model, in ms.
    pub modelled_ms_mean: f64,
    /// Error of the mean, in percent.
    pub mean_error_percent: f64,
    /// Demerit, in ms.
    pub demerit_ms: f64,
    /// Demerit, in percent of the drive's mean.
    pub demerit_percent: f64,
    /// Share of the requests that the model predicts within 0.3 ms.
    pub within_300_us: f64,
    /// Share of the requests that the model predicts within 0.5 ms.
    pub within_500_us: f64,
}

impl Comparison {
    /// Compares pairs of `(measured, modelled)` response times in ms.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        if pairs.is_empty() {
            return Self::default();
        }
        let count = pairs.len() as f64;
        let measured: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let modelled: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
        let (measured_mean, modelled_mean) = (mean(&measured), mean(&modelled));
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values
        };
        let squares: f64 = sorted(measured)
            .iter()
            .zip(sorted(modelled))
            .map(|(measured, modelled)| (measured - modelled).powi(2))
            .sum();
        let demerit_ms = (squares / count).sqrt();
        let within = |ms: f64| {
            let near = pairs.iter().filter(|(measured, modelled)| (measured - modelled).abs() < ms);
            near.count() as f64 / count
        };
        let percent = |ms: f64| if measured_mean > 0.0 { 100.0 * ms / measured_mean } else { 0.0 };
        Self {
            requests: pairs.len(),
            measured_ms_mean: measured_mean,
            modelled_ms_mean: modelled_mean,
            mean_error_percent: percent(modelled_mean - measured_mean),
            demerit_ms,
            demerit_percent: percent(demerit_ms),
            within_300_us: within(0.3),
            within_500_us: within(0.5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demerit_compares_distributions_and_not_requests() {
        let swapped = [(1.0, 3.0), (3.0, 1.0)];
        let found = Comparison::of(&swapped);
        assert!(found.demerit_ms < 1e-12 && found.within_500_us < 1e-12, "{found:?}");
        let slower = [(1.0, 1.4), (3.0, 3.4)];
        let found = Comparison::of(&slower);
        assert!((found.demerit_ms - 0.4).abs() < 1e-12, "{found:?}");
        assert!((found.demerit_percent - 20.0).abs() < 1e-9, "{found:?}");
        assert!((found.mean_error_percent - 20.0).abs() < 1e-9, "{found:?}");
        assert!(found.within_300_us < 1e-12 && (found.within_500_us - 1.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_compares_as_nothing() {
        assert_eq!(Comparison::of(&[]), Comparison::default());
    }
}
