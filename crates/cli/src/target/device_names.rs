//! The names of all devices of a volume but its map device: how a start names them, and how later ones are to.

use super::{Beside, DiskArgs};
use serde::{Deserialize, Serialize};

/// Target, data devices and log devices, each named as a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceNames {
    /// The one that has the superblocks.
    pub target: String,
    /// Data devices, or the other links of a chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_devices: Vec<String>,
    /// Further log devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log_devices: Vec<String>,
}

impl DeviceNames {
    /// Names in a start with these settings.
    pub fn of(target: &str, args: &DiskArgs) -> Result<Self, String> {
        let Beside { data: data_devices, logs: log_devices } = Beside::of(args)?;
        Ok(Self { target: target.to_owned(), data_devices, log_devices })
    }

    /// All of them, the target first.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.target).chain(&self.data_devices).chain(&self.log_devices)
    }

    /// The same with another name for the device at `position` of all.
    #[must_use]
    pub fn with(&self, position: usize, name: &str) -> Self {
        let mut names = self.clone();
        let devices = names.data_devices.iter_mut().chain(&mut names.log_devices);
        if let Some(found) = std::iter::once(&mut names.target).chain(devices).nth(position) {
            name.clone_into(found);
        }
        names
    }

    /// Each of them as `name` has it.
    ///
    /// # Errors
    /// `name` fails for one of them.
    pub fn each(&self, name: impl Fn(&str) -> Result<String, String>) -> Result<Self, String> {
        let list = |texts: &[String]| -> Result<Vec<String>, String> {
            texts.iter().map(|text| name(text)).collect()
        };
        Ok(Self {
            target: name(&self.target)?,
            data_devices: list(&self.data_devices)?,
            log_devices: list(&self.log_devices)?,
        })
    }

    /// The settings of a start that names them.
    pub fn disk_args(&self, args: &DiskArgs) -> DiskArgs {
        let (data_devices, log_devices) = (self.data_devices.clone(), self.log_devices.clone());
        DiskArgs { data_devices, log_devices, ..args.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_a_position_at_which_it_is_named_otherwise() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let names = DeviceNames {
            target: "a".to_owned(),
            data_devices: list(&["b", "c"]),
            log_devices: list(&["d"]),
        };
        for position in 0..4 {
            let renamed = names.with(position, "x");
            let mut expected = list(&["a", "b", "c", "d"]);
            "x".clone_into(&mut expected[position]);
            assert_eq!(renamed.all().cloned().collect::<Vec<_>>(), expected);
        }
        let upper = names.each(|name| Ok(name.to_uppercase())).unwrap();
        assert_eq!(upper.all().cloned().collect::<Vec<_>>(), ["A", "B", "C", "D"]);
    }
}
