//! The identity of an attached volume: what its first worker opened, and every later one opens again.
//!
//! The supervisor writes it to `identity.json` once the first worker is ready, and gives each later worker that file instead of the user's
//! wishes. What it keeps true:
//!
//! - a later worker opens the same devices, with the settings as they were read at the start: a volume file that was edited since counts
//!   from the next `attach` on;
//! - words that act once (`create-if-missing`, `take=N`) are not in it;
//! - a member that is replaced (`nearhead replace`) is exchanged in it before anything is written to its successor for the volume;
//! - a file that was replaced by another, and a volume with another id, are refused before anything is written. The supervisor waits then.
//!
//! It must never be used by the first worker, which decides what the user means.

use super::BlockSize;
use crate::target::{DeviceNames, backing_paths};
use nearhead_arrays::{ArraySpec, MISSING, Replacement};
use nearhead_models::ModelSpec;
use nearhead_nbd::client::Address;
use nearhead_settings::{DiskArgs, ServeArgs};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Options of arrays that act once.
const ACT_ONCE: [&str; 1] = ["take="];

/// What a later worker opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Id of the volume, in hexadecimal digits.
    pub(super) volume_id: String,
    /// The target, by a name that any folder finds.
    target: String,
    map_device: Option<PathBuf>,
    data_devices: Vec<String>,
    log_devices: Vec<String>,
    /// Text of the volume file at the start.
    config: Option<String>,
    /// Files under the volume.
    files: Vec<KnownFile>,
    /// Arguments of the first worker, and the folder in which it had them.
    pub(super) arguments: Vec<String>,
    pub(super) folder: PathBuf,
    /// Smallest block of the device.
    pub(super) block_bytes: u32,
    /// Nothing can be written to the device.
    pub(super) read_only: bool,
}

/// A regular file, as its file system knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Identity {
    /// The devices of `settings`, whose volume file had the text `config` at the start, and the volume with this id on them.
    pub(super) fn of(
        settings: &ServeArgs,
        config: Option<String>,
        volume_id: String,
    ) -> Result<Self, String> {
        let disk = &settings.disk;
        let map_device = disk.map_device.as_deref().map(lasting_path);
        let names = DeviceNames::of(settings.target()?, disk)?.each(lasting_name)?;
        let DeviceNames { target, data_devices, log_devices } = names;
        let words = super::arguments_for("worker").into_iter().map(OsString::into_string);
        let arguments = words.collect::<Result<Vec<_>, _>>().map_err(|word| {
            format!("attach: expected arguments in UTF-8, found {}", word.to_string_lossy())
        })?;
        let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let (block_bytes, read_only) = (BlockSize::B4096.bytes(), settings.read_only);
        let identity = Self {
            volume_id,
            target,
            map_device,
            data_devices,
            log_devices,
            config,
            files: Vec::new(),
            arguments,
            folder,
            block_bytes,
            read_only,
        };
        identity.with_files()
    }

    /// The same with the files that its devices are now.
    fn with_files(self) -> Result<Self, String> {
        let mut paths: Vec<PathBuf> = self.map_device.iter().cloned().collect();
        for text in self.names().all().filter(|text| *text != MISSING) {
            // A member that is being replaced may be away.
            let named = Replacement::of(text).map_or(text.clone(), |replacement| replacement.after);
            paths.extend(backing_paths(&named)?);
        }
        let files = paths.into_iter().filter_map(KnownFile::at).collect();
        Ok(Self { files, ..self })
    }

    fn names(&self) -> DeviceNames {
        let Self { target, data_devices, log_devices, .. } = self.clone();
        DeviceNames { target, data_devices, log_devices }
    }

    /// The same volume on devices with these names.
    pub(super) fn on(self, names: &DeviceNames) -> Result<Self, String> {
        let DeviceNames { target, data_devices, log_devices } = names.each(lasting_name)?;
        Self { target, data_devices, log_devices, ..self }.with_files()
    }

    /// The same for a block device with blocks of so many bytes, which can be written or not.
    pub(super) fn shown_as(self, (block_bytes, read_only): (u32, bool)) -> Self {
        Self { block_bytes, read_only, ..self }
    }

    /// Reads the one at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let failed = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
        let text = std::fs::read(path).map_err(|error| failed(&error))?;
        serde_json::from_slice(&text).map_err(|error| failed(&error))
    }

    /// Settings of a later worker, which was given the flags `args`.
    pub(super) fn settings(&self, args: &ServeArgs) -> Result<ServeArgs, String> {
        let mut settings = match &self.config {
            Some(text) => args.completed_by(ServeArgs::from_text(text)?),
            None => args.clone(),
        };
        settings.target = Some(self.target.clone());
        settings.create_if_missing = false;
        (settings.preset, settings.size) = (None, None);
        settings.disk = DiskArgs {
            map_device: self.map_device.clone(),
            data_devices: self.data_devices.clone(),
            log_devices: self.log_devices.clone(),
            ..settings.disk
        };
        Ok(settings)
    }

    /// Refuses files that are not those of the first worker.
    pub(super) fn refuse_other_files(&self) -> Result<(), String> {
        for known in &self.files {
            let path = known.path.display();
            let found = match std::fs::metadata(&known.path) {
                Ok(found) if known.is(&found) => continue,
                Ok(_) => "another file by that name".to_owned(),
                Err(error) => error.to_string(),
            };
            return Err(format!(
                "{path}: expected the file that this device was attached with, found {found}; requests wait until it is back at its path, \
                 or until `nearhead detach --force`"
            ));
        }
        Ok(())
    }
}

impl KnownFile {
    /// The one at `path`; none if no regular file is there.
    fn at(path: PathBuf) -> Option<Self> {
        let found = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { path, device: found.dev(), inode: found.ino() })
    }

    fn is(&self, found: &std::fs::Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }
}

/// The devices of the identity at `path`.
pub fn devices_at(path: &Path) -> Option<DeviceNames> {
    Identity::read(path).ok().map(|identity| identity.names())
}

/// The path by which any folder finds a file, however the links to it change. A link to a block device stays: the kernel may call the device
/// otherwise after it was away.
pub fn lasting_path(path: &Path) -> PathBuf {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    let canonical = if is_file { path.canonicalize() } else { std::path::absolute(path) };
    canonical.unwrap_or_else(|_| path.to_owned())
}

/// A target by names that any folder finds, without options that act once.
pub fn lasting_name(text: &str) -> Result<String, String> {
    if text == MISSING || Address::is_export(text) {
        return Ok(text.to_owned());
    }
    if !ArraySpec::is_array(text) {
        if !ModelSpec::is_model(text) {
            let path = lasting_path(Path::new(text)).into_os_string();
            return path.into_string().map_err(|path| {
                format!("{}: expected a path in UTF-8, found another one", path.display())
            });
        }
        let part = |part: &str| match part.strip_prefix("file=") {
            Some(path) => format!("file={}", lasting_path(Path::new(path)).display()),
            None => part.to_owned(),
        };
        return Ok(text.split(',').map(part).collect::<Vec<_>>().join(","));
    }
    let spec = ArraySpec::parse(text).map_err(|error| error.to_string())?;
    let named = |member: &String| {
        let name = lasting_name(member)?;
        Ok(if ArraySpec::is_array(member) { format!("[{name}]") } else { name })
    };
    let members: Result<Vec<String>, String> = spec.members.iter().map(named).collect();
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    // Behind the last member in brackets, which has options of its own.
    let own = &rest[rest.rfind(']').map_or(0, |at| at + 1)..];
    let options = own.rsplit_once('?').map_or("", |(_, options)| options).split('&');
    let acts_once = |option: &&str| ACT_ONCE.iter().any(|name| option.starts_with(name));
    let kept: Vec<&str> =
        options.filter(|option| !option.is_empty() && !acts_once(option)).collect();
    let options = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok(format!("{kind}:{}{options}", members?.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_act_once_are_not_in_an_identity() {
        for (text, expected) in [
            ("mirror:/a,/b?take=1", "mirror:/a,/b"),
            ("mirror:/a,/b?take=2@17&read=balanced", "mirror:/a,/b?read=balanced"),
            ("mirror:/a,missing?read=first", "mirror:/a,missing?read=first"),
            (
                "raid0:[mirror:/a,/b?take=1],[mirror:/c,/d?read=balanced&take=2]?chunk=64k",
                "raid0:[mirror:/a,/b],[mirror:/c,/d?read=balanced]?chunk=64k",
            ),
            ("nbd://host:1", "nbd://host:1"),
            ("model:st3146855fc,file=/a", "model:st3146855fc,file=/a"),
            ("/dev/null", "/dev/null"),
        ] {
            assert_eq!(lasting_name(text).unwrap(), expected);
        }
        let args = ServeArgs {
            target: Some("mirror:/a,/b?take=1".to_owned()),
            create_if_missing: true,
            preset: Some("mlb".to_owned()),
            ..ServeArgs::default()
        };
        let config = Some("watermark = 40\ntarget = \"elsewhere\"\n".to_owned());
        let identity = Identity::of(&args, config, "00".to_owned()).unwrap();
        let settings = identity.settings(&args).unwrap();
        assert_eq!(settings.target.as_deref(), Some("mirror:/a,/b"));
        assert!(!settings.create_if_missing && settings.preset.is_none());
        assert_eq!(settings.watermark, Some(40), "as the volume file said at the start");
        let target = "mirror:/a,/b,/c?replace=2".to_owned();
        let during = DeviceNames { target: target.clone(), ..DeviceNames::default() };
        let settings = identity.on(&during).unwrap().settings(&args).unwrap();
        assert_eq!(settings.target, Some(target), "a later worker goes on with a replacement");
    }
}
