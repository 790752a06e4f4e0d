//! Pages of commands on their way: mapping first, then the page, and collecting behind it all.
//!
//! A page belongs to one plane for ever (channel, chip, die, plane, in the order of its address:
//! the static allocation CWDP), and inside the plane to wherever it was programmed last.

use super::dies::{Current, Operation};
use super::{FlashModel, MAPPING_ENTRY_BYTES};

/// Who waits for a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Read { command: u64 },
    Change { change: u64 },
}

/// One page of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) owner: Owner,
    pub(super) page: u64,
    /// A part of the page is written: the rest must be read first.
    pub(super) partial: bool,
}

impl FlashModel {
    /// Plane of a host's page, and its number there.
    fn home(&self, page: u64) -> (u32, u32) {
        let planes = u64::from(self.profile.flash.planes());
        ((page % planes) as u32, (page / planes) as u32)
    }

    fn die_of(&self, plane: u32) -> u32 {
        plane % self.profile.flash.dies()
    }

    pub(super) fn begin_task(&mut self, task: Task) {
        let id = self.desk.number();
        self.tasks.insert(id, task);
        let per_page = u64::from(self.profile.flash.page_bytes / MAPPING_ENTRY_BYTES);
        let translation = task.page / per_page;
        if self.mapping.touch(translation, matches!(task.owner, Owner::Change { .. })) {
            return self.mapped(id);
        }
        let waiting = self.waiting_for_mapping.entry(translation).or_default();
        waiting.push(id);
        if waiting.len() == 1 {
            let die = (translation % u64::from(self.profile.flash.dies())) as u32;
            self.queue(die, Operation::ReadMapping { page: translation });
        }
    }

    /// The disk knows where the page of a task is.
    fn mapped(&mut self, id: u64) {
        let Some(task) = self.tasks.get(&id).copied() else { return };
        let (plane, page) = self.home(task.page);
        let holds_something = self.planes[plane as usize].place(page).is_some();
        let die = self.die_of(plane);
        match task.owner {
            Owner::Read { .. } if !holds_something => self.task_done(id),
            Owner::Change { .. } if !task.partial || !holds_something => {
                self.queue(die, Operation::Program { task: id, plane });
            }
            _ => self.queue(die, Operation::Read { task: id }),
        }
    }

    fn task_done(&mut self, id: u64) {
        match self.tasks.remove(&id).map(|task| task.owner) {
            Some(Owner::Read { command }) => self.part_of_command_done(command, None),
            Some(Owner::Change { change }) => self.part_of_change_done(change),
            None => {}
        }
    }

    pub(super) fn operation_done(&mut self, die: u32, current: Current) {
        match current.operation {
            Operation::ReadMapping { page } => self.mapping_read(page),
            Operation::ProgramMapping => self.stats.mapping_programs += 1,
            Operation::Read { task } => {
                self.stats.page_reads += 1;
                match self.tasks.get(&task).copied() {
                    Some(Task { owner: Owner::Change { .. }, page, .. }) => {
                        let plane = self.home(page).0;
                        self.queue(die, Operation::Program { task, plane });
                    }
                    _ => self.task_done(task),
                }
            }
            Operation::Program { task, plane } => {
                self.stats.page_programs += 1;
                if let (Some(place), Some(page)) =
                    (current.target, self.tasks.get(&task).map(|task| task.page))
                {
                    let page = self.home(page).1;
                    self.planes[plane as usize].settle(page, place);
                }
                self.task_done(task);
                self.collect(plane);
            }
            Operation::MoveOut { plane, page, place } => {
                self.queue(die, Operation::MoveIn { plane, page, place });
            }
            Operation::MoveIn { plane, page, place } => {
                if let Some(target) = current.target {
                    self.moved(plane, page, (place, target));
                }
            }
            Operation::Erase { plane, block } => self.erased(plane, block),
        }
    }

    fn mapping_read(&mut self, translation: u64) {
        self.stats.mapping_reads += 1;
        if let Some(written) = self.mapping.insert(translation) {
            let die = (written % u64::from(self.profile.flash.dies())) as u32;
            self.queue(die, Operation::ProgramMapping);
        }
        for id in self.waiting_for_mapping.remove(&translation).unwrap_or_default() {
            let change = |task: &Task| matches!(task.owner, Owner::Change { .. });
            let changes = self.tasks.get(&id).is_some_and(change);
            self.mapping.touch(translation, changes);
            self.mapped(id);
        }
    }

    /// Begins to collect a plane that runs out of free blocks.
    pub(super) fn collect(&mut self, plane: u32) {
        let held = &self.planes[plane as usize];
        let busy = self.collecting[plane as usize].is_some();
        if busy || held.free_blocks() > self.collect_below {
            return;
        }
        if let Some(victim) = held.victim() {
            self.collecting[plane as usize] = Some(victim);
            self.collect_on(plane);
        }
    }

    /// Moves the next valid page out of the block being collected, or erases it.
    fn collect_on(&mut self, plane: u32) {
        let Some(block) = self.collecting[plane as usize] else { return };
        let operation = match self.planes[plane as usize].valid_page(block) {
            Some((page, from)) => Operation::MoveOut { plane, page, place: from },
            None => Operation::Erase { plane, block },
        };
        self.queue(self.die_of(plane), operation);
    }

    /// A page was moved; it counts unless the host wrote or trimmed it meanwhile.
    pub(super) fn moved(&mut self, plane: u32, page: u32, (from, to): (u32, u32)) {
        self.stats.pages_moved += 1;
        let held = &mut self.planes[plane as usize];
        if held.place(page) == Some(from) {
            held.settle(page, to);
        } else {
            held.waste(to);
        }
        self.collect_on(plane);
    }

    fn erased(&mut self, plane: u32, block: u32) {
        self.stats.erases += 1;
        self.planes[plane as usize].erase(block);
        self.collecting[plane as usize] = None;
        let die = self.die_of(plane);
        while let Some(operation) = self.blocked[plane as usize].pop_back() {
            self.queue_first(die, operation);
        }
        self.collect(plane);
    }

    /// The host's pages hold nothing any more.
    pub(super) fn forget_pages(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            let (plane, page) = self.home(page);
            self.planes[plane as usize].forget(page);
        }
    }
}
