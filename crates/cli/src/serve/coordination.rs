//! Turns that a served volume takes with its replicas: permits for checkpoints that can wait, from ZooKeeper.
//!
//! The daemon's tick carries two bits: whether the volume wants a permit, and whether the lease has one. Nothing here
//! waits; an ensemble that is away means that there is no permit.

use super::ServeArgs;
use nearhead_coordinate::{Config, Identity, Lease, SESSION_TIMEOUT, View};
use nearhead_format::Superblock;
use nearhead_output::{hex, note};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A lease, and where its permits are.
pub struct Turns {
    lease: Lease,
    place: String,
    /// What the volume was told last.
    is_held: bool,
}

/// How the volume takes turns, as `status` reports it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Coordination {
    /// Where permits are.
    pub place: String,
    /// `connecting`, `idle`, `waiting`, `holding` or `unreachable`.
    pub state: String,
    /// Whether the volume wants a permit.
    pub wants_permit: bool,
    /// While waiting: how many permits must be given back first.
    pub ahead: u32,
    /// For how long no server has answered, in seconds, if none does.
    pub unreachable_s: Option<f64>,
    /// What the last attempt found then.
    pub problem: Option<String>,
    /// Permits got since the start.
    pub permits_granted: u64,
    /// Permits that were gone before they were given back.
    pub permits_lost: u64,
}

/// Begins to take turns, if that is asked for.
pub(super) fn start(args: &ServeArgs, superblock: &Superblock) -> Result<Option<Turns>, String> {
    let Some((place, permits)) = args.coordination()? else { return Ok(None) };
    let config = Config {
        servers: place.servers.clone(),
        path: place.path.clone(),
        permits,
        holder: format!("volume {}, process {}", hex(&superblock.volume_id), std::process::id()),
        session_timeout: SESSION_TIMEOUT,
        identity: args.checkpoint_identity.as_deref().map(identity).transpose()?,
    };
    let lease = Lease::start(config, note)
        .map_err(|error| format!("serve: expected a thread for permits, found {error}"))?;
    Ok(Some(Turns { lease, place: place.to_string(), is_held: false }))
}

/// Reads a file with an identity; whatever is wrong with it, its content is not shown.
fn identity(file: &Path) -> Result<Identity, String> {
    let failed = |why: String| format!("--checkpoint-identity {}: {why}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    Identity::parse(text.lines().next().unwrap_or_default()).map_err(failed)
}

impl Turns {
    /// Says what the volume wants; tells whether it has a permit, if that has changed.
    pub(super) fn exchange(&mut self, wants: bool) -> Option<bool> {
        let is_held = self.lease.exchange(wants);
        let has_changed = is_held != self.is_held;
        self.is_held = is_held;
        has_changed.then_some(is_held)
    }

    /// The volume was opened again and knows of no permit: it is told at the next exchange, if there is one.
    pub(super) fn tell_again(&mut self) {
        self.is_held = false;
    }

    /// The report.
    pub(super) fn report(&self, wants_permit: bool) -> Coordination {
        let View { phase, ahead, unreachable_for, problem, granted, lost } = self.lease.view();
        Coordination {
            place: self.place.clone(),
            state: phase.name().to_owned(),
            wants_permit,
            ahead,
            unreachable_s: unreachable_for.map(|span| span.as_secs_f64()),
            problem,
            permits_granted: granted,
            permits_lost: lost,
        }
    }
}

impl Coordination {
    /// The report for people.
    pub fn text(&self) -> String {
        let away = self.unreachable_s.map_or(String::new(), |seconds| {
            let problem = self.problem.as_deref().unwrap_or("no answer");
            format!(" for {seconds:.0} s ({problem}): checkpoints that can wait do wait")
        });
        let ahead = match self.ahead {
            0 => String::new(),
            ahead => format!(" for {ahead} others"),
        };
        format!(
            "permits at {}: {}{ahead}{away}; {} got, {} lost",
            self.place, self.state, self.permits_granted, self.permits_lost
        )
    }
}
