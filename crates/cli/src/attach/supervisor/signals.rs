//! Signals to a supervisor: each takes the device away, unless it is used.
//!
//! This must never wait for the worker on the
//! supervisor's own thread.

use super::{Event, Supervisor, on_a_thread};
use crate::stopping_signals::stopping_signals;
use nearhead_output::note;
use std::sync::mpsc::Sender;

impl Supervisor<'_> {
    /// A signal: the device is taken away unless it is used.
    pub(super) fn take_away_at(&self, signal: i32) {
        let name = &self.place.name;
        let Some(facts) = self.facts.clone().filter(|facts| !facts.device.as_os_str().is_empty())
        else {
            // It has no user yet.
            note(&format!("signal {signal}: {name} is not attached"));
            self.stop_worker();
            let _ = self.backend.give_up(&self.place, None);
            return;
        };
        note(&format!("signal {signal}: detaching {name}"));
        let (place, backend) = (self.place.clone(), self.backend);
        // On a thread of its own: it asks the worker.
        let started = on_a_thread(move || {
            if let Err(why) = crate::attach::detach::take_away(&place, &facts, backend) {
                note(&why);
            }
        });
        if let Err(why) = started {
            note(&format!("{why}; it stays attached"));
        }
    }
}

/// Sends an event for each signal.
pub(super) fn watch_signals(sender: &Sender<Event>) -> Result<(), String> {
    let sender = sender.clone();
    stopping_signals(move |signal| drop(sender.send(Event::Signal(signal))))
}
