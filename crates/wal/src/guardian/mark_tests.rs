//! Tests of the mark and of the cut, on real files of the build's own file system.

use super::*;
use crate::guardian::tail::Ending;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

struct Place(PathBuf);

impl Place {
    /// A file of these bytes on a file system with attributes and leases: the build's own.
    fn of(name: &str, bytes: &[u8]) -> Self {
        let own = std::env::current_exe().unwrap();
        let path = own.with_file_name(format!("nearhead-mark-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(&self.0).unwrap()
    }

    fn mark(&self, stream: u64, end_min: u64) {
        Mark { stream, end_min }.set(self.open()).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn padded(content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.resize(content.len() + 300_000, 0);
    bytes
}

#[test]
fn a_marked_file_is_cut_to_its_content() {
    let place = Place::of("cut", &padded(b"content"));
    assert_eq!(repair(&place.0).unwrap(), Settled::Unmarked);
    assert!(!marked(&place.0));
    place.mark(7, 3);
    assert!(marked(&place.0));
    let reader = File::open(&place.0).unwrap();
    assert_eq!(repair(&place.0).unwrap(), Settled::OpenElsewhere);
    drop(reader);
    assert_eq!(repair(&place.0).unwrap(), Settled::Cut(7));
    assert_eq!(place.bytes(), b"content");
    assert!(!marked(&place.0));
    let empty = Place::of("empty", &padded(b""));
    empty.mark(7, 0);
    assert_eq!(repair(&empty.0).unwrap(), Settled::Cut(0));
}

#[test]
fn zeros_that_the_program_wrote_stay() {
    let place = Place::of("zeros", &padded(b"content\0\0\0"));
    place.mark(7, 10);
    assert_eq!(repair(&place.0).unwrap(), Settled::Cut(10));
    assert_eq!(place.bytes(), b"content\0\0\0");
}

#[test]
fn what_was_written_and_not_synced_is_there_after_a_death() {
    for (durable, size) in [(0, 0), (4, 0), (12, 0), (4, 20)] {
        let content = b"content\0more";
        let place = Place::of("death", &padded(&content[..durable]));
        let end = content.len() as u64;
        let durable = durable as u64;
        let tail = Tail::create(Ending { durable, end, size, dirty_end: end }).unwrap();
        tail.put(durable, &content[durable as usize..]).unwrap();
        place.mark(7, 0);
        assert_eq!(settle(&place.0, 8, &tail).unwrap(), Settled::Unmarked, "of another stream");
        let len = size.max(end);
        assert_eq!(settle(&place.0, 7, &tail).unwrap(), Settled::Cut(len));
        let mut expected = content.to_vec();
        expected.resize(len as usize, 0);
        assert_eq!(place.bytes(), expected);
        assert_eq!(settle(&place.0, 7, &tail).unwrap(), Settled::Unmarked);
    }
}

#[test]
fn a_cut_that_was_under_way_is_completed() {
    let place = Place::of("under-way", &padded(b"content"));
    place.mark(7, 3);
    let tail = Tail::create(Ending { durable: 3, end: 3, size: 3, dirty_end: 7 }).unwrap();
    assert_eq!(settle(&place.0, 7, &tail).unwrap(), Settled::Cut(3));
    assert_eq!(place.bytes(), b"con");
}

#[test]
fn what_another_process_wrote_since_is_left_alone() {
    let place = Place::of("changed", &padded(b"content"));
    place.mark(7, 7);
    let ending = Ending { durable: 7, end: 7, size: 7, dirty_end: 7 };
    let tail = Tail::create(ending).unwrap();
    place.open().write_all_at(b"x", 100_000).unwrap();
    let before = place.bytes();
    assert_eq!(settle(&place.0, 7, &tail).unwrap(), Settled::Changed);
    assert!(place.bytes() == before && !marked(&place.0));
    place.mark(7, 7);
    place.open().set_len(2).unwrap();
    assert_eq!(settle(&place.0, 7, &tail).unwrap(), Settled::Changed);
    assert_eq!(place.bytes(), b"co");
}
