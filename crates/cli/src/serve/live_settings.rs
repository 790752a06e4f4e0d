//! Settings that `nearhead set` changed while an attached volume was served, kept in `/run` for later workers.
//!
//! The file has a line `NAME=VALUE` for each setting, as it was typed, the newest last. It must never hold more than one line for a setting.

use std::io;
use std::path::PathBuf;

/// Settings of [`nearhead_settings::Tuner`] are fewer.
const LINES_MAX: usize = 256;

/// The file and its lines.
#[derive(Debug)]
pub(super) struct LiveSettings {
    path: PathBuf,
    words: Vec<String>,
}

impl LiveSettings {
    /// Those in the file at `path`; none if there is no file.
    pub(super) fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let words = text.lines().take(LINES_MAX).map(str::to_owned).collect();
        Self { path, words }
    }

    /// Lines of the file.
    pub(super) fn words(&self) -> Vec<String> {
        self.words.clone()
    }

    /// Keeps `words` in place of earlier ones for the same settings.
    pub(super) fn note(&mut self, words: &[&str]) -> io::Result<()> {
        for word in words {
            let name = |word: &str| word.split('=').next().unwrap_or_default().to_owned();
            self.words.retain(|known| name(known) != name(word));
            self.words.push((*word).to_owned());
        }
        let new = self.path.with_extension("new");
        std::fs::write(&new, self.words.join("\n") + "\n")?;
        std::fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_of_each_setting_is_kept() {
        let path = std::env::temp_dir().join(format!("nearhead-live-{}", std::process::id()));
        let mut live = LiveSettings::read(path.clone());
        live.note(&["watermark=40", "ack=flush"]).unwrap();
        live.note(&["watermark=50"]).unwrap();
        assert_eq!(LiveSettings::read(path.clone()).words(), ["ack=flush", "watermark=50"]);
        std::fs::remove_file(path).unwrap();
    }
}
