//! Acts of a script on files: system calls, checkpoints, and what happens to the mounts.

use super::call::Call;
use std::fmt;
use std::str::FromStr;

/// One line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesAct {
    /// A system call, by the first process or by the second.
    Call(usize, Call),
    /// Whole trees are compared.
    Look,
    /// The kernel drops its caches; then whole trees are compared.
    DropCaches,
    /// Both file systems are unmounted and mounted again.
    Remount,
    /// The worker of the mount is killed; everything stays, also what is open and not durable.
    KillWorker,
    /// All processes of the mount are killed; what was synced must be there. Both trees are empty afterwards.
    Kill,
    /// A kill of all processes while the medium loses its power: what no flush covers is lost, kept or torn by this seed.
    PowerCut(u64),
}

impl fmt::Display for FilesAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(0, call) => write!(f, "{call}"),
            Self::Call(_, call) => write!(f, "second {call}"),
            Self::Look => f.write_str("look"),
            Self::DropCaches => f.write_str("drop-caches"),
            Self::Remount => f.write_str("remount"),
            Self::KillWorker => f.write_str("kill-worker"),
            Self::Kill => f.write_str("kill"),
            Self::PowerCut(seed) => write!(f, "power-cut {seed}"),
        }
    }
}

impl FromStr for FilesAct {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        Ok(match line {
            "look" => Self::Look,
            "drop-caches" => Self::DropCaches,
            "remount" => Self::Remount,
            "kill-worker" => Self::KillWorker,
            "kill" => Self::Kill,
            _ => match (line.strip_prefix("second "), line.strip_prefix("power-cut ")) {
                (Some(call), _) => Self::Call(1, call.parse()?),
                (_, Some(seed)) => {
                    let expected = |_| format!("expected power-cut and a number, found {line:?}");
                    Self::PowerCut(seed.parse().map_err(expected)?)
                }
                _ => Self::Call(0, line.parse()?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_on_files_reads_what_it_prints() {
        for line in [
            "look",
            "kill",
            "kill-worker",
            "power-cut 7",
            "remount",
            "second flock 1 shared",
            "as 7 unlink a",
        ] {
            assert_eq!(line.parse::<FilesAct>().unwrap().to_string(), line);
        }
    }
}
