//! Kinds of layout: how many logs there are, and where.
//!
//! All that a plan distinguishes, and all that this crate knows of what a volume was created as. Which policies run on a
//! layout is the business of whoever opens the volume: here a preset is a number. Nothing here may name one.

use super::Layout;
use std::fmt;

/// How many logs a volume has, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// Everything in place.
    NoLogs,
    /// One log in the middle of the disk.
    OneLog,
    /// A log in the middle of every group.
    ManyLogs,
    /// The same, and a record may begin anywhere in its log.
    ManyLogsAnywhere,
    /// One log, where a shingled disk is not shingled.
    OneLogApart,
    /// Many logs, where a shingled disk is not shingled; a record may begin anywhere in its log, but not in volumes of before.
    ManyLogsApart,
    /// Many logs on a device of their own, before others that have the data; a record may begin anywhere in its log.
    LogDevice,
    /// Many logs on every device, and nothing else: what is not logged is nowhere.
    Chain,
}

impl LayoutKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::NoLogs,
        Self::OneLog,
        Self::ManyLogs,
        Self::ManyLogsAnywhere,
        Self::OneLogApart,
        Self::ManyLogsApart,
        Self::LogDevice,
        Self::Chain,
    ];

    /// Whether there is any log.
    pub fn has_logs(self) -> bool {
        self != Self::NoLogs
    }

    /// Whether there may be more than one log, so that somebody has to choose.
    pub fn has_many_logs(self) -> bool {
        !matches!(self, Self::NoLogs | Self::OneLog | Self::OneLogApart)
    }

    /// Whether the logs are all that there is, on one device or several.
    pub fn is_chain(self) -> bool {
        self == Self::Chain
    }

    /// Whether the volume has data devices, and its logs on its own.
    pub fn is_for_data_devices(self) -> bool {
        self == Self::LogDevice
    }

    /// Whether the logs are apart from the data, or from where it would be.
    fn has_logs_apart(self) -> bool {
        self.is_for_shingled() || self.is_for_data_devices() || self.is_chain()
    }

    /// Whether the logs are apart from the data, where a shingled disk is not shingled.
    pub fn is_for_shingled(self) -> bool {
        matches!(self, Self::OneLogApart | Self::ManyLogsApart)
    }

    /// Whether the size of a group may be chosen; else the groups follow from the device.
    pub fn has_groups_of_any_size(self) -> bool {
        matches!(self, Self::ManyLogs | Self::ManyLogsAnywhere)
    }

    /// Whether a record may begin anywhere in its log of a volume that is made now: then a recovery reads logs whole.
    pub fn has_records_anywhere(self) -> bool {
        matches!(self, Self::ManyLogsAnywhere | Self::ManyLogsApart | Self::LogDevice)
    }

    /// Whether `layout` is of this kind. One log may be all that there is room for of many.
    pub fn fits(self, layout: &Layout) -> bool {
        let logs = layout.log_count();
        let logs_fit = match self {
            Self::NoLogs => logs == 0,
            Self::OneLog | Self::OneLogApart => logs == 1,
            Self::ManyLogs
            | Self::ManyLogsAnywhere
            | Self::ManyLogsApart
            | Self::LogDevice
            | Self::Chain => logs >= 1,
        };
        logs_fit
            && layout.is_chain() == self.is_chain()
            && (self.is_chain() || layout.data_parts.is_empty() != self.is_for_data_devices())
            && layout.logs_are_apart() == self.has_logs_apart()
            && (layout.records_anywhere == self.has_records_anywhere()
                || self == Self::ManyLogsApart)
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoLogs => "a layout without logs",
            Self::OneLog => "a layout with one log",
            Self::ManyLogs => "a layout with a log in every group",
            Self::ManyLogsAnywhere => {
                "a layout with a log in every group, in which records stand anywhere"
            }
            Self::OneLogApart => "a layout with one log where the disk is not shingled",
            Self::ManyLogsApart => "a layout with many logs where the disk is not shingled",
            Self::LogDevice => "a layout with many logs on a device of their own",
            Self::Chain => "a layout of nothing but logs, on one device or several",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::defaults;
    use super::*;

    #[test]
    fn a_plan_fits_its_kind_and_no_kind_with_logs_elsewhere() {
        for planned in LayoutKind::ALL {
            let layout = Layout::plan(1 << 30, &defaults(planned, 1 << 30)).unwrap();
            for kind in LayoutKind::ALL {
                let elsewhere = kind.is_for_shingled() != planned.is_for_shingled()
                    || kind.is_for_data_devices() != planned.is_for_data_devices()
                    || kind.is_chain() != planned.is_chain();
                let fewer = kind.has_logs() != planned.has_logs();
                // Of one log nobody can tell whether there was room for more.
                let other_records = kind.has_records_anywhere() != planned.has_records_anywhere()
                    && kind != LayoutKind::ManyLogsApart;
                let may_fit = !elsewhere
                    && !fewer
                    && !other_records
                    && (kind.has_many_logs() || kind == planned);
                assert_eq!(kind.fits(&layout), may_fit, "{kind} on {planned}");
            }
        }
    }

    #[test]
    fn each_kind_is_told_in_other_words() {
        let words: Vec<String> = LayoutKind::ALL.iter().map(ToString::to_string).collect();
        for (index, told) in words.iter().enumerate() {
            assert!(!words[..index].contains(told), "{told}");
        }
    }
}
