//! Letting virtual time pass: to the next event, until everything is answered, or for a while.

use super::Harness;
use nearhead_disk::Nanos;
use nearhead_service::Service;

impl Harness {
    pub fn drive(&mut self) {
        let now = self.now;
        self.volume().drive(now);
        self.take_replies();
    }

    /// Goes on until so much time has passed.
    pub fn pass(&mut self, span: Nanos) {
        let until = self.now + span;
        loop {
            self.drive();
            let Some(wake) = self.volume().wake_at().filter(|wake| *wake < until) else { break };
            self.now = wake.max(self.now);
        }
        self.now = until;
        self.drive();
    }

    pub(super) fn turn(&mut self, span: Nanos) {
        self.drive();
        if let Some(wake) = self.volume().wake_at() {
            self.now = (self.now + span).min(wake.max(self.now));
            self.drive();
        }
    }

    /// Jumps to the next event; says whether there was one.
    pub fn jump(&mut self) -> bool {
        self.drive();
        let Some(wake) = self.volume().wake_at() else { return false };
        self.now = wake.max(self.now);
        self.drive();
        true
    }

    pub fn is_settled(&self) -> bool {
        self.unanswered.is_empty()
    }

    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            self.drive();
            if self.is_settled() {
                return;
            }
            if !self.jump() {
                let status = self.volume().status();
                panic!("requests {:?} wait but nothing will happen: {status:#?}", self.unanswered);
            }
        }
        let status = self.volume().status();
        panic!("requests {:?} are never answered: {status:#?}", self.unanswered);
    }
}
