//! Random lives of a file system that end in a crash at any request: e2fsck finds nothing, what was synced is there with its times, and a
//! name that was replaced without a sync has the old or the whole new content.
//!
//! A life is repeated by its seed: `NEARHEAD_FS_SEED=N cargo test -p nearhead-fs --test crashes`; `NEARHEAD_FS_LIVES=N` tries more.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_ext4::{AttributeChange, FileKind, Ino, ROOT, Rename, Timestamp};
use nearhead_format::AckMode;
use nearhead_fs::{Answer, FsOperation, RoomChange};
use nearhead_models::MemoryStore;
use std::collections::BTreeMap;
use support::store::{Ground, Left, Store, after_cut};
use support::{
    Blocks, Client, Ram, SIZE, Timed, assert_clean, buffer, empty, make, mode_of, pattern,
};

const NAMES: u64 = 6;
/// Of file systems on volumes.
const VOLUME_SIZE: u64 = 32 << 20;
const FILE_BYTES_MAX: u64 = 600_000;

/// One file as it should be.
#[derive(Clone, Debug, Default)]
struct Model {
    ino: Option<Ino>,
    bytes: Vec<u8>,
    /// All that was done to it and its name is durable.
    is_synced: bool,
    /// Its times then: of its content, of the node.
    times: Option<(Timestamp, Timestamp)>,
    /// Durable content under this name before an unsynced file was renamed over it. Later acts on the file clear it.
    replaced: Option<Vec<u8>>,
}

impl Model {
    fn touched(&mut self) {
        (self.is_synced, self.times, self.replaced) = (false, None, None);
    }
}

struct Life<S> {
    client: Client<S>,
    random: Random,
    folders: Vec<(String, Ino)>,
    files: BTreeMap<String, Model>,
    told: String,
}

impl<S: Timed> Life<S> {
    fn of(client: Client<S>, random: Random, seed: u64, mode: &str) -> Self {
        let told = format!(
            "mode {mode}: NEARHEAD_FS_SEED={seed} cargo test -p nearhead-fs --test crashes"
        );
        let folders = vec![(String::new(), ROOT)];
        Self { client, random, folders, files: BTreeMap::new(), told }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A name that there is or not, with its folder.
    fn any_name(&mut self) -> (Ino, String, String) {
        let which = self.below(self.folders.len() as u64) as usize;
        let (folder, ino) = self.folders[which].clone();
        let name = format!("f{}", self.below(NAMES));
        (ino, name.clone(), format!("{folder}/{name}"))
    }

    fn any_file(&mut self) -> Option<(String, Ino)> {
        let there: Vec<(String, Ino)> = self
            .files
            .iter()
            .filter_map(|(path, model)| Some((path.clone(), model.ino?)))
            .collect();
        if there.is_empty() {
            return None;
        }
        let which = self.below(there.len() as u64) as usize;
        Some(there[which].clone())
    }

    /// Does something; false once the service answers nothing any more.
    fn step(&mut self) -> bool {
        match self.below(20) {
            0..=3 => self.create(),
            4..=8 => self.write(),
            9 => self.cut(),
            10 => self.rename(),
            11 => self.unlink(),
            12 => self.make_folder(),
            13 => self.change_room(),
            14 => self.pass_time(),
            15 => self.sync_all(),
            _ => self.sync(),
        }
    }

    fn create(&mut self) -> bool {
        let (parent, name, path) = self.any_name();
        let is_there = self.files.get(&path).is_some_and(|model| model.ino.is_some());
        match self.client.try_ask(make(parent, &name, FileKind::Regular)) {
            Some(Ok(Answer::Node(node))) => {
                assert!(!is_there, "{}: {path} was made twice", self.told);
                let model = Model { ino: Some(node.ino), ..Model::default() };
                self.files.insert(path, model);
                true
            }
            Some(Err(error)) => {
                assert!(is_there && error.errno == 17, "{}: {path}: {error}", self.told);
                true
            }
            _ => false,
        }
    }

    fn write(&mut self) -> bool {
        let Some((path, ino)) = self.any_file() else { return true };
        let len = match self.below(4) {
            0 => 1 + self.below(100),
            1 => 1 + self.below(9000),
            2 => 4096,
            _ => 1 + self.below(150_000),
        };
        let now = self.files[&path].bytes.len() as u64;
        let offset = match self.below(3) {
            0 => now,
            1 => self.below(now + 1),
            _ => self.below(FILE_BYTES_MAX - len) / 4096 * 4096,
        };
        let bytes = pattern(self.random.next_u64(), len as usize);
        let is_durable = self.below(6) == 0;
        let data = buffer(&bytes);
        let was_synced = self.files[&path].is_synced;
        let done = self.client.try_ask(FsOperation::Write { ino, offset, data, is_durable });
        let model = self.files.entry(path.clone()).or_default();
        model.touched();
        match done {
            Some(Ok(_)) => {
                let end = (offset + len) as usize;
                if model.bytes.len() < end {
                    model.bytes.resize(end, 0);
                }
                model.bytes[offset as usize..end].copy_from_slice(&bytes);
                // Its name may not be durable if it was not before.
                model.is_synced = is_durable && was_synced;
                self.check_read(&path, ino)
            }
            Some(Err(error)) => panic!("{}: write to {path}: {error}", self.told),
            None => false,
        }
    }

    fn check_read(&mut self, path: &str, ino: Ino) -> bool {
        let len = self.files[path].bytes.len() as u64;
        let offset = self.below(len + 1);
        let wanted = 1 + self.below(50_000) as u32;
        match self.client.try_ask(FsOperation::Read { ino, offset, len: wanted }) {
            Some(Ok(Answer::Bytes(parts))) => {
                let read = nearhead_disk::bytes_of(&parts);
                let end = (offset + u64::from(wanted)).min(len) as usize;
                let expected = &self.files[path].bytes[offset as usize..end];
                let differs = read.iter().zip(expected).position(|(one, other)| one != other);
                assert!(
                    read.len() == expected.len() && differs.is_none(),
                    "{}: {path} from byte {offset}: {} bytes read, {} expected, first difference {differs:?}",
                    self.told,
                    read.len(),
                    expected.len()
                );
                true
            }
            Some(other) => panic!("{}: read of {path}: {other:?}", self.told),
            None => false,
        }
    }

    fn cut(&mut self) -> bool {
        let Some((path, ino)) = self.any_file() else { return true };
        let size = self.below(FILE_BYTES_MAX);
        let change = AttributeChange::default();
        let operation = FsOperation::SetAttributes { ino, change, size: Some(size) };
        let done = self.client.try_ask(operation);
        let model = self.files.entry(path.clone()).or_default();
        model.touched();
        match done {
            Some(Ok(_)) => {
                model.bytes.resize(size as usize, 0);
                self.check_read(&path, ino)
            }
            Some(Err(error)) => panic!("{}: cut of {path}: {error}", self.told),
            None => false,
        }
    }

    fn change_room(&mut self) -> bool {
        let Some((path, ino)) = self.any_file() else { return true };
        let (offset, len) = (self.below(FILE_BYTES_MAX / 2), 1 + self.below(FILE_BYTES_MAX / 2));
        let change =
            [RoomChange::Reserve, RoomChange::Punch, RoomChange::Zero][self.below(3) as usize];
        let done = self.client.try_ask(FsOperation::ChangeRoom { ino, offset, len, change });
        let model = self.files.entry(path.clone()).or_default();
        model.touched();
        match done {
            Some(Ok(_)) => {
                let end = (offset + len) as usize;
                if change != RoomChange::Punch && model.bytes.len() < end {
                    model.bytes.resize(end, 0);
                }
                let end = end.min(model.bytes.len());
                if change != RoomChange::Reserve && (offset as usize) < end {
                    model.bytes[offset as usize..end].fill(0);
                }
                self.check_read(&path, ino)
            }
            Some(Err(error)) => panic!("{}: {change:?} of {path}: {error}", self.told),
            None => false,
        }
    }

    fn rename(&mut self) -> bool {
        let (from, name, path) = self.any_name();
        let (to, new_name, new_path) = self.any_name();
        let is_there = self.files.get(&path).is_some_and(|model| model.ino.is_some());
        let operation = FsOperation::Rename {
            from,
            name: name.into_bytes(),
            to,
            new_name: new_name.into_bytes(),
            how: Rename::Replace,
        };
        let done = self.client.try_ask(operation);
        let target = self.files.get(&new_path).cloned().unwrap_or_default();
        let replaced = (target.is_synced && target.ino.is_some()).then_some(target.bytes);
        for path in [&path, &new_path] {
            self.files.entry(path.clone()).or_default().touched();
        }
        match done {
            Some(Ok(_)) => {
                assert!(is_there, "{}: {path} was renamed and is not there", self.told);
                if path != new_path {
                    let model = self.files.insert(path, Model::default()).unwrap_or_default();
                    self.files.insert(new_path, Model { replaced, ..model });
                }
                true
            }
            Some(Err(error)) => {
                assert!(!is_there && error.errno == 2, "{}: {path}: {error}", self.told);
                true
            }
            None => false,
        }
    }

    fn unlink(&mut self) -> bool {
        let (parent, name, path) = self.any_name();
        let there = self.files.get(&path).and_then(|model| model.ino);
        self.files.entry(path.clone()).or_default().touched();
        let name = name.into_bytes();
        match self.client.try_ask(FsOperation::Unlink { parent, name }) {
            Some(Ok(_)) => {
                assert!(there.is_some(), "{}: {path} went and was not there", self.told);
                self.files.insert(path, Model::default());
                // Now and then somebody still has it open.
                if let Some(ino) = there.filter(|_| self.random.below(3) > 0) {
                    self.client.try_ask(FsOperation::Forget { ino, count: u64::MAX });
                }
                true
            }
            Some(Err(error)) => {
                assert!(there.is_none() && error.errno == 2, "{}: {path}: {error}", self.told);
                true
            }
            None => false,
        }
    }

    fn make_folder(&mut self) -> bool {
        let number = self.folders.len();
        if number > 4 {
            return true;
        }
        let name = format!("d{number}");
        match self.client.try_ask(make(ROOT, &name, FileKind::Directory)) {
            Some(Ok(Answer::Node(node))) => {
                self.folders.push((format!("/{name}"), node.ino));
                true
            }
            Some(other) => panic!("{}: {name}: {other:?}", self.told),
            None => false,
        }
    }

    fn pass_time(&mut self) -> bool {
        self.client.now = Nanos(self.client.now.0 + 3_000_000_000);
        let now = self.client.now;
        self.client.mounted.drive(now);
        true
    }

    fn sync(&mut self) -> bool {
        let Some((path, ino)) = self.any_file() else { return true };
        match self.client.try_ask(FsOperation::Sync { ino, data_only: false }) {
            Some(Ok(_)) => self.note_synced(&path, ino),
            Some(Err(error)) => panic!("{}: sync of {path}: {error}", self.told),
            None => false,
        }
    }

    fn sync_all(&mut self) -> bool {
        match self.client.try_ask(FsOperation::SyncAll) {
            Some(Ok(_)) => {
                self.files.values_mut().for_each(|model| model.is_synced = true);
                let there =
                    self.files.iter().filter_map(|(path, it)| Some((path.clone(), it.ino?)));
                let there: Vec<(String, Ino)> = there.collect();
                there.iter().all(|(path, ino)| self.note_synced(path, *ino))
            }
            Some(Err(error)) => panic!("{}: sync: {error}", self.told),
            None => false,
        }
    }

    fn note_synced(&mut self, path: &str, ino: Ino) -> bool {
        let found = self.client.try_ask(FsOperation::Attributes { ino });
        let Some(Ok(Answer::Node(node))) = found else { return false };
        let model = self.files.get_mut(path).unwrap();
        (model.is_synced, model.replaced) = (true, None);
        model.times = Some((node.modified, node.changed));
        true
    }

    /// Until it is over, or nothing is answered any more.
    fn live(&mut self) {
        for _ in 0..200 {
            if !self.step() {
                break;
            }
        }
    }

    /// What a crash left, looked at.
    fn look(&self, blocks: Blocks, size: u64, mode: &str) {
        assert_clean(size, &blocks, &self.told);
        let mut client = Client::of(Ram::of(size, blocks), mode);
        for (path, model) in self.files.iter().filter(|(_, model)| model.is_synced) {
            let found = client.find(path);
            let Some(_) = model.ino else {
                assert!(found.is_none(), "{}: {path} is back", self.told);
                continue;
            };
            let ino = found.unwrap_or_else(|| panic!("{}: {path} is gone", self.told));
            let node = client.ask(FsOperation::Attributes { ino });
            let Ok(Answer::Node(node)) = node else { panic!("{}: {path}: {node:?}", self.told) };
            let times = Some((node.modified, node.changed));
            assert!(model.times.is_none() || times == model.times, "{}: {path}", self.told);
            let read = client.read(ino, 0, 1 << 21);
            let differs = read.iter().zip(&model.bytes).position(|(one, other)| one != other);
            assert!(
                read.len() == model.bytes.len() && differs.is_none(),
                "{}: {path} has {} bytes, expected {}, first difference {differs:?}",
                self.told,
                read.len(),
                model.bytes.len()
            );
        }
        for (path, model) in &self.files {
            let Some(old) = &model.replaced else { continue };
            let ino = client.find(path).unwrap_or_else(|| panic!("{}: {path} is gone", self.told));
            let read = client.read(ino, 0, 1 << 21);
            assert!(
                read == *old || read == model.bytes,
                "{}: {path} has {} bytes, expected the {} from before it was replaced or the {} after",
                self.told,
                read.len(),
                old.len(),
                model.bytes.len()
            );
        }
        assert_clean(size, &client.unmount(), &self.told);
    }
}

fn live(seed: u64, mode: &str, blocks: &Blocks) {
    let mut random = Random::new(seed);
    let mut ram = Ram::of(SIZE, blocks.clone());
    ram.requests_left = 4 + random.below(120);
    let mut life = Life::of(Client::of(ram, mode), random, seed, mode);
    life.live();
    let blocks = life.client.mounted.service().after_crash(&mut life.random);
    life.look(blocks, SIZE, mode);
}

/// The same on a volume, with a cut at any command of its disks.
fn live_on_volume(seed: u64, mode: &str, ground: &Ground, image: &MemoryStore, blocks: &Blocks) {
    let mut random = Random::new(seed);
    let mut store = Store::on(ground, image.clone());
    store.commands_left = store.commands() + 4 + random.below(400);
    let now = store.now();
    let mut life = Life::of(Client::at(store, mode, now), random, seed, mode);
    life.live();
    let point = life.client.mounted.service_mut().cut_now();
    let left = [Left::Safe, Left::All, Left::Later, Left::Chance][life.random.below(4) as usize];
    let cut = after_cut(&point, ground.options.sector_bytes, left, &mut life.random);
    life.look(ground.recovered(cut, VOLUME_SIZE, blocks), VOLUME_SIZE, mode);
}

/// Which lives: those of `NEARHEAD_FS_SEED` and `NEARHEAD_FS_LIVES`, else the first so many.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("NEARHEAD_FS_SEED"), number("NEARHEAD_FS_LIVES")) {
        (Some(seed), lives) => seed..seed + lives.unwrap_or(1),
        (None, lives) => 1..1 + lives.unwrap_or(usual),
    }
}

#[test]
fn after_a_crash_at_any_request_the_image_is_clean_and_what_was_synced_is_there() {
    let Some(blocks) = empty(SIZE) else { return };
    for seed in seeds(70) {
        live(seed, mode_of(seed), &blocks);
    }
}

#[test]
fn after_a_cut_of_a_volume_at_any_command_the_image_is_clean_and_what_was_synced_is_there() {
    const PRESETS: [&str; 5] = ["mlb", "nearhead", "gecko", "singlelog", "slsmr"];
    let Some(blocks) = empty(VOLUME_SIZE) else { return };
    for (number, preset) in (0_u64..).zip(PRESETS) {
        let mut ground = Ground::of(preset, AckMode::Flush);
        // So that there is room for the file system.
        ground.log_bytes = if preset == "gecko" { ground.log_bytes } else { 3 << 20 };
        let image = ground.made(&blocks);
        // A seed is of one preset.
        for seed in seeds(35).filter(|seed| seed % 5 == number) {
            println!("{preset}, seed {seed}");
            live_on_volume(seed, mode_of(seed / 5), &ground, &image, &blocks);
        }
    }
}
