//! A report of a volume that is shown as a block device of the kernel.

use serde::{Deserialize, Serialize};

/// A volume that is shown as a block device of the kernel, and its processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AttachedReport {
    /// Its name.
    pub name: String,
    /// The process that supervises it; none if that has ended.
    pub supervisor: Option<u32>,
    /// The process that serves it; none if no one does now.
    pub worker: Option<u32>,
    /// What keeps the device busy, such as a mount; none if nothing that can be seen does.
    #[serde(default)]
    pub user: Option<String>,
    /// Why no worker serves it.
    pub trouble: Option<String>,
    /// Writes that were answered and not flushed, if no worker serves it.
    pub kept: Option<String>,
    /// What brings it back, if something is missing.
    pub advice: Option<String>,
}

impl AttachedReport {
    /// Lines for people.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let process = |number: Option<u32>| {
            number.map_or_else(|| "none".to_owned(), |number| format!("process {number}"))
        };
        let user = self.user.as_deref().unwrap_or("nothing");
        let mut lines = vec![(
            "attached",
            format!(
                "as {}, used by {user}; supervisor: {}, worker: {}",
                self.name,
                process(self.supervisor),
                process(self.worker)
            ),
        )];
        if let Some(trouble) = &self.trouble {
            lines.push(("waiting", format!("no worker serves it, requests wait: {trouble}")));
        }
        lines.extend(self.kept.iter().map(|kept| ("kept", kept.clone())));
        lines.extend(self.advice.iter().map(|advice| ("advice", advice.clone())));
        lines
    }
}
