//! Lives of mirrors whose members fail, stay away, come back and lose their power, at any moment: in the end all members are
//! alike, byte for byte, and have every write that was acknowledged as durable, although most of those that come back are copied
//! only what they missed.

use super::keeper::Standing;
use super::label_rig::*;
use super::*;

const REGION: u64 = 64 << 10;
const REGIONS: u64 = 12;
/// Blocks of a member.
const ALL: u64 = REGIONS * REGION / BLOCK;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A life: its members, here or away, and what was promised of each block.
struct Life {
    random: SplitMix,
    members: Vec<Option<Shaky>>,
    durable: Vec<u32>,
    newest: u32,
    /// How often a member came back that was to be copied all, and what it missed.
    whole: usize,
    by_regions: usize,
    /// How often somebody had to say whose content counts.
    decided: usize,
}

/// A write that was not answered, or not flushed.
#[derive(Clone, Copy)]
struct Sent {
    id: u64,
    at: u64,
    version: u32,
    is_durable: bool,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let count = 2 + random.below(2) as usize;
        let mut members: Vec<_> =
            (0..count).map(|_| Some(Shaky::new(ALL, 10 + random.below(900)))).collect();
        let made = opened(&text(&vec![true; count]), &mut members, make(7)).unwrap();
        let members = start(made).disks();
        let durable = vec![0; ALL as usize];
        Self { random, members, durable, newest: 0, whole: 0, by_regions: 0, decided: 0 }
    }

    /// Which members are here next: one that has everything at least.
    fn choose(&mut self) -> Vec<bool> {
        let label = |one: &mut Option<Shaky>| label_of(one.as_mut()?, &mut run_one).unwrap();
        let labels: Vec<Label> = self.members.iter_mut().filter_map(label).collect();
        let newest = labels.iter().map(|label| label.generation).max().unwrap();
        let is_whole = |label: &Label| label.generation == newest && label.counts(label.index);
        loop {
            let here: Vec<bool> = labels.iter().map(|_| self.random.below(3) > 0).collect();
            if labels.iter().zip(&here).any(|(label, here)| *here && is_whole(label)) {
                return here;
            }
        }
    }

    /// Opens the mirror with those that are to be here; who is.
    fn open(&mut self, here: Vec<bool>) -> (Run<Shaky>, Vec<bool>) {
        let take = |(member, here): (&mut Option<Shaky>, &bool)| member.take_if(|_| *here);
        let mut named: Vec<_> = self.members.iter_mut().zip(&here).map(take).collect();
        let mirror = match reopened(&text(&here), &mut named) {
            Ok(mirror) => mirror,
            Err(problem) => {
                // Of three members two may have been used each without the other, and both with the third.
                assert!(problem.contains("were each used without the other"), "{problem}");
                self.put_back(named, &here);
                return self.decide();
            }
        };
        let run = start(mirror);
        let copies = &run.mirror.arrangement;
        for (member, standing) in copies.standings.iter().enumerate() {
            if matches!(standing, Standing::Behind(_)) {
                let is_known = copies.known_missed(member).is_some();
                self.by_regions += usize::from(is_known);
                self.whole += usize::from(!is_known);
            }
        }
        (run, here)
    }

    /// Somebody says whose content counts.
    fn decide(&mut self) -> (Run<Shaky>, Vec<bool>) {
        self.decided += 1;
        let label = |one: &mut Option<Shaky>| label_of(one.as_mut()?, &mut run_one).unwrap();
        let labels: Vec<_> = self.members.iter_mut().map(label).collect();
        let whole =
            labels.iter().map(|label| label.map(|one| (one.generation, one.counts(one.index))));
        let (place, newest) = whole.enumerate().max_by_key(|(_, whole)| *whole).unwrap();
        let here = vec![true; labels.len()];
        let generation = newest.map_or(0, |(generation, _)| generation);
        let text = format!("{}?take={}@{generation}", text(&here), place + 1);
        (start(reopened(&text, &mut self.members).unwrap()), here)
    }

    /// Uses the mirror, and stops anywhere: its members lose their power, some after they were left in order.
    fn use_for_a_while(&mut self, mut run: Run<Shaky>, here: &[bool]) {
        let count = here.iter().filter(|here| **here).count();
        let mut sent: Vec<Sent> = Vec::new();
        let mut cached: Vec<Sent> = Vec::new();
        let mut flushes: Vec<(u64, Vec<Sent>)> = Vec::new();
        let fails_at = self.random.below(60);
        for id in 1..=self.random.below(40) {
            if id == fails_at && count > 1 {
                let member = run.mirror.member(self.random.below(count as u64) as usize);
                if self.random.below(4) == 0 { &member.unreadable } else { &member.broken }
                    .set(true);
            }
            // Most of it in few regions.
            let most = if self.random.coin() { 2 } else { REGIONS };
            let region = self.random.below(most);
            let at = region * (REGION / BLOCK) + self.random.below(3);
            if self.random.below(8) == 0 {
                run.send(id, Command::Flush);
                flushes.push((id, cached.clone()));
            } else if !sent.iter().any(|sent| sent.at == at) {
                self.newest += 1;
                let one = Sent { id, at, version: self.newest, is_durable: self.random.coin() };
                sent.push(one);
                let (parts, offset) = (vec![block(one.version)], at * BLOCK);
                run.send(id, Command::Write { offset, parts, durable: one.is_durable });
            }
            let until = run.now + Nanos::from_micros(self.random.below(1500));
            let done = run.until(until);
            self.answered(done, &mut sent, &mut cached, &mut flushes);
        }
        if self.random.coin() {
            run.until(run.now + Nanos::from_micros(self.random.below(100_000)));
            run.mirror.leave();
            let until = run.now + Nanos::from_micros(self.random.below(200_000));
            run.until(until);
        }
        let disks = cut(run, &mut self.random);
        self.put_back(disks, here);
    }

    fn answered(
        &mut self,
        done: Vec<Completion>,
        sent: &mut Vec<Sent>,
        cached: &mut Vec<Sent>,
        flushes: &mut Vec<(u64, Vec<Sent>)>,
    ) {
        for done in done {
            let is_well = done.result.is_ok();
            if let Some(place) = flushes.iter().position(|(id, _)| *id == done.id.0) {
                let (_, covered) = flushes.swap_remove(place);
                covered.iter().filter(|_| is_well).for_each(|one| self.promise(*one));
            }
            let Some(place) = sent.iter().position(|sent| sent.id == done.id.0) else { continue };
            let one = sent.swap_remove(place);
            match (is_well, one.is_durable) {
                (true, true) => self.promise(one),
                (true, false) => cached.push(one),
                (false, _) => {}
            }
        }
    }

    fn promise(&mut self, one: Sent) {
        let durable = &mut self.durable[one.at as usize];
        *durable = one.version.max(*durable);
    }

    fn put_back(&mut self, disks: Vec<Option<Shaky>>, here: &[bool]) {
        let mut disks = disks.into_iter().flatten();
        for (member, _) in self.members.iter_mut().zip(here).filter(|(_, here)| **here) {
            let disk = disks.next().unwrap();
            disk.broken.set(false);
            disk.unreadable.set(false);
            *member = Some(disk);
        }
    }

    fn check(&self, run: &mut Run<Shaky>, what: &str) {
        for (at, durable) in self.durable.iter().enumerate().filter(|(_, durable)| **durable > 0) {
            let found = run.read(at as u64);
            assert!(found >= *durable, "{what}: block {at} is {found}, {durable} was acknowledged");
        }
    }
}

fn text(here: &[bool]) -> String {
    let name = |(name, here): (&&'static str, &bool)| if *here { *name } else { MISSING };
    let names: Vec<_> = NAMES.iter().zip(here).map(name).collect();
    format!("mirror:{}", names.join(","))
}

/// All that a member holds before its label.
fn bytes_of(disk: &mut Shaky) -> Vec<u8> {
    let len = disk.properties().transfer_bytes_max;
    let mut all = Vec::new();
    for offset in (0..ALL * BLOCK).step_by(len as usize) {
        let mut bytes = vec![0; len as usize];
        run_one(disk, Command::Read { offset, len }).unwrap().copy_to(&mut bytes);
        all.extend(bytes);
    }
    all
}

/// Lives and lets live; how often members came back to be copied all, and what they missed.
fn live(seed: u64) -> (usize, usize) {
    let what = format!("repeat with seed {seed}");
    let mut life = Life::new(seed);
    for _ in 0..8 {
        let here = life.choose();
        let (mut run, here) = life.open(here);
        life.check(&mut run, &what);
        if life.random.coin() {
            // Long enough for some to be brought up to date, or all.
            let until = run.now + Nanos::from_micros(life.random.below(400_000));
            run.until(until);
        }
        life.use_for_a_while(run, &here);
    }
    let here = vec![true; life.members.len()];
    let (mut run, here) = life.open(here);
    run.until(Nanos::from_secs(5));
    assert_eq!((run.mirror.members_left(), run.mirror.trouble()), (here.len(), None), "{what}");
    life.check(&mut run, &what);
    let held: Vec<_> = run.disks().iter_mut().flatten().map(bytes_of).collect();
    for (index, other) in held.iter().enumerate() {
        let differs = other.iter().zip(&held[0]).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{what}: member {index} differs from the first at this byte");
    }
    assert!(life.decided == 0 || here.len() == 3, "{what}");
    (life.whole, life.by_regions)
}

#[test]
fn whoever_fails_stays_away_or_comes_back_all_members_are_alike_in_the_end_and_lack_nothing() {
    let lives = (0..400).map(live);
    let (whole, by_regions) = lives.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(whole > 200 && by_regions > 400, "{whole} copied whole, {by_regions} by regions");
}
