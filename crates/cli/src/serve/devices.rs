//! The devices of a served volume, by the names under which they are opened again: to grow, and when a member of a mirror is replaced.

use super::{ServeArgs, with_read_cache};
use crate::target::{Access, DeviceNames, Target, refuse_if_misnamed};
use nearhead_output::note;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// The names of the devices, which copies of this share.
#[derive(Clone)]
pub(super) struct Devices {
    args: Rc<ServeArgs>,
    names: Rc<RefCell<DeviceNames>>,
    /// Notes of their last opening after the start, if there was one.
    notes: Rc<RefCell<Option<Vec<String>>>>,
    /// Zero of the clock by which they are opened.
    start: Instant,
}

impl Devices {
    pub(super) fn new(args: &ServeArgs, target: &str, start: Instant) -> Result<Self, String> {
        let names = Rc::new(RefCell::new(DeviceNames::of(target, &args.disk)?));
        Ok(Self { args: Rc::new(args.clone()), names, notes: Rc::default(), start })
    }

    /// The target as it is named now.
    pub(super) fn target(&self) -> String {
        self.names.borrow().target.clone()
    }

    /// All of them as they are named now.
    pub(super) fn names(&self) -> DeviceNames {
        self.names.borrow().clone()
    }

    /// Names them otherwise from now on.
    pub(super) fn rename(&self, names: DeviceNames) {
        *self.names.borrow_mut() = names;
    }

    /// Notes of the last exchange of a device, if there was one.
    pub(super) fn notes(&self) -> Option<Vec<String>> {
        self.notes.borrow().clone()
    }

    /// Other devices were opened, with these notes.
    pub(super) fn exchanged(&self, names: DeviceNames, notes: Vec<String>) {
        for line in &notes {
            note(line);
        }
        *self.notes.borrow_mut() = Some(notes);
        self.rename(names);
    }

    /// Settings of the daemon.
    pub(super) fn args(&self) -> &ServeArgs {
        &self.args
    }

    /// Opens them as they are named now.
    pub(super) fn open(&self) -> Result<Target, String> {
        self.open_as(&self.names())
    }

    /// Opens them by other names.
    pub(super) fn open_as(&self, names: &DeviceNames) -> Result<Target, String> {
        let disk = names.disk_args(&self.args.disk);
        let mut target = Target::open_by(&names.target, Access::Write, &disk, self.start)?;
        refuse_if_misnamed(&mut target)?;
        with_read_cache(target, &self.args)
    }
}
