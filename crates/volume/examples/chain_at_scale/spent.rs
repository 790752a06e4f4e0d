//! What this process takes of the machine.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process so far, in s.
pub(crate) fn processor_s() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Memory of this process that is resident, in bytes, and the most that it ever was; 0 where the kernel does not say.
pub(crate) fn resident_bytes() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
        kib.unwrap_or(0_u64) * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}
