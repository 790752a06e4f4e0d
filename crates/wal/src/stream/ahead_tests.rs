//! How much of the zeros whoever syncs has to wait for.

use super::*;
use crate::storage::{Memory, StoredFile};
use crate::stream::{At, Stream};
use std::sync::Mutex;
use std::thread::{ThreadId, current};

const NAME: &str = "log.1";

/// Files in memory; notes who wrote how many bytes that were not durable at once: zeros.
#[derive(Clone)]
struct Watched {
    files: Memory,
    zeroed: Arc<Mutex<Vec<(ThreadId, u64)>>>,
    /// Set with the write that makes it so many.
    give_up_after: Option<(usize, Arc<AtomicBool>)>,
}

struct WatchedFile {
    file: Arc<dyn StoredFile>,
    watched: Watched,
}

impl Watched {
    fn new() -> Self {
        Self { files: Memory::new(), zeroed: Arc::default(), give_up_after: None }
    }

    fn zeroed_by(&self, thread: ThreadId) -> u64 {
        self.zeroed.lock().unwrap().iter().filter(|(by, _)| *by == thread).map(|(_, n)| n).sum()
    }
}

impl Storage for Watched {
    fn names(&self) -> Result<Vec<String>> {
        self.files.names()
    }

    fn open(&self, name: &str, access: Access) -> Result<Arc<dyn StoredFile>> {
        let file = self.files.open(name, access)?;
        Ok(Arc::new(WatchedFile { file, watched: self.clone() }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.files.remove(name)
    }

    fn sync_names(&self) -> Result<()> {
        self.files.sync_names()
    }

    fn describe(&self) -> String {
        self.files.describe()
    }
}

impl StoredFile for WatchedFile {
    fn name(&self) -> &str {
        self.file.name()
    }

    fn lock(&self) -> Result<()> {
        self.file.lock()
    }

    fn len_bytes(&self) -> Result<u64> {
        self.file.len_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> Result<usize> {
        self.file.read(offset, memory)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut zeroed = self.watched.zeroed.lock().unwrap();
        zeroed.push((current().id(), bytes.len() as u64));
        if let Some((writes, give_up)) = &self.watched.give_up_after {
            give_up.store(zeroed.len() >= *writes, Ordering::Relaxed);
        }
        self.file.write(offset, bytes)
    }

    fn write_durable(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_durable(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }
}

#[test]
fn whoever_syncs_zeroes_little_itself_where_a_thread_zeroes_the_rest() {
    let storage = Watched::new();
    let options = StreamOptions { ahead_bytes: 8 << 20, ..StreamOptions::default() };
    let mut stream =
        Stream::open(Arc::new(storage.clone()), NAME, At::New, &options, None).unwrap();
    stream.write(&[1; 5000]).unwrap();
    assert_eq!(stream.sync(), Ok(5000));
    let zeroed = storage.zeroed_by(current().id());
    assert!((8192..=FIRST_STEP_BYTES + PIECE_BYTES).contains(&zeroed), "{zeroed} bytes");
    assert_eq!(stream.close(), Ok(5000));
}

#[test]
fn without_a_thread_whoever_syncs_zeroes_the_whole_lead() {
    let storage = Watched::new();
    let options =
        StreamOptions { ahead_bytes: 8 << 20, ahead_by_thread: false, ..StreamOptions::default() };
    let mut stream =
        Stream::open(Arc::new(storage.clone()), NAME, At::New, &options, None).unwrap();
    stream.write(&[1; 5000]).unwrap();
    stream.sync().unwrap();
    assert!(storage.zeroed_by(current().id()) >= 8 << 20);
}

#[test]
fn zeroing_that_is_told_to_give_up_leaves_it_at_what_is_written_and_durable() {
    let give_up = Arc::new(AtomicBool::new(false));
    let storage = Watched { give_up_after: Some((3, Arc::clone(&give_up))), ..Watched::new() };
    storage.open(NAME, Access::Create).unwrap();
    let to = zero(&storage, NAME, PIECE_BYTES..100 * PIECE_BYTES, &give_up);
    assert_eq!(to, Ok(4 * PIECE_BYTES));
    assert_eq!(storage.open(NAME, Access::Read).unwrap().len_bytes(), Ok(4 * PIECE_BYTES));
}

#[test]
fn steps_grow_until_the_whole_lead_is_zeroed_ahead() {
    let storage = Watched::new();
    let options = StreamOptions { ahead_bytes: 8 << 20, ..StreamOptions::default() };
    storage.open(NAME, Access::Create).unwrap();
    let mut ahead = Ahead::new(Arc::new(storage.clone()), NAME, &options, 0);
    for _ in 0..8 {
        ahead.make_room(4096).unwrap();
        // Waits for the thread without telling it to give up.
        if let Some(thread) = ahead.thread.take() {
            ahead.written_to = thread.join().unwrap().unwrap();
        }
    }
    assert!((4 << 20..=16 << 20).contains(&ahead.written_to), "{}", ahead.written_to);
    assert!(storage.zeroed_by(current().id()) <= FIRST_STEP_BYTES + PIECE_BYTES);
}
