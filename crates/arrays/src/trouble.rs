//! What a mirror tells people of its members, in the order of what they should do something about first, and how far these are apart.

use super::Core;
use super::keeper::Standing;
use super::mirror::Copies;
use super::parts::Parts;
use nearhead_disk::{Disk, Resilver};

impl Copies {
    /// How far its members are apart, if they know each other.
    pub(super) fn apart<D: Disk>(&self, core: &Core<D, Parts>) -> Option<Resilver> {
        let keeper = self.keeper.as_ref()?;
        let name = core.properties.name.clone();
        let end = core.properties.capacity_bytes;
        let is_here = |index: &u16| {
            keeper.members_of(*index).any(|member| self.standings[member] != Standing::Out)
        };
        let lacks = |index: u16| {
            let missed = keeper.missed();
            if missed.covers(index) { missed.regions().bytes_from(0) } else { end }
        };
        let count = self.members_made_of() as u16;
        let dirty_bytes = (0..count).filter(|index| !is_here(index)).map(lacks).max().unwrap_or(0);
        let to_members = (0..self.standings.len()).map(|member| self.left_bytes(member, end));
        Some(Resilver {
            name,
            dirty_bytes,
            left_bytes: to_members.sum::<u64>() + self.unsure_bytes(end),
            replacing: self.replacing(core),
        })
    }

    /// What is wrong, the worst of it; none if every member that the mirror has is in order.
    pub(super) fn tell_people<D: Disk>(&self, core: &Core<D, Parts>) -> Option<String> {
        let name = &core.properties.name;
        let count = self.members_made_of();
        let left = self.counting().count().min(count);
        let failed: Vec<&str> =
            self.states.iter().filter_map(|state| state.failed.as_deref()).collect();
        if !failed.is_empty() {
            let advice = if self.keeper.is_some() {
                "it is brought up to date when it is named and can be written again"
            } else {
                "copy a sound member onto it, or leave it out, before the next use"
            };
            return Some(format!(
                "{name}: {left} of {count} members left: {}; its content is old from here on: {advice}",
                failed.join("; ")
            ));
        }
        let behind = |(member, standing): (usize, &Standing)| match standing {
            Standing::Behind(_) | Standing::Joining => {
                Some(core.members.disk(member).properties().name.as_str())
            }
            _ => None,
        };
        let behind: Vec<&str> = self.standings.iter().enumerate().filter_map(behind).collect();
        if let Some(words) = self.succession_in_words(core) {
            return Some(words);
        }
        if !behind.is_empty() {
            return Some(format!(
                "{name}: {left} of {count} members have everything: {} is being copied to",
                behind.join(", ")
            ));
        }
        if self.any_unsure() {
            return Some(format!(
                "{name}: was not left in order, so its members may differ where writes were under way: they \
                 are being compared and made alike"
            ));
        }
        if self.missing > 0 {
            return Some(format!(
                "{name}: {left} of {count} members left: the others are not named"
            ));
        }
        let unread = self.states.iter().find_map(|state| state.unread.as_ref());
        unread.map(|unread| format!("{name}: another member had to help out: {unread}"))
    }
}
