//! Whoever uses a file system here does the same each time, and nothing else than said.

use super::{Durable, SmallFiles, SmallFilesOptions};
use crate::contention::{FILES, Span};
use crate::mlfs;
use nearhead_disk::Nanos;

fn digest_of(method: usize, seed: u64) -> (u64, u64) {
    let method = mlfs::methods().unwrap().swap_remove(method);
    let prepare = |image: &mut super::Image| SmallFiles::scattered(image, FILES);
    let (mut bench, files) = mlfs::bench(&method, 1, prepare).unwrap();
    let ends_with = Durable::Fsyncs;
    let options = SmallFilesOptions { files, syncs_per_s: 4.0, ends_with, seed };
    let writer = SmallFiles::start(&mut bench, options);
    let span = Span { warm_up: Nanos::from_secs(1), measured: Nanos::from_secs(2) };
    mlfs::measured(&mut bench, span).unwrap();
    (bench.digest(), writer.syncs(bench.now()).requests)
}

#[test]
fn the_same_users_on_the_same_ground_have_the_same_digest_and_others_another() {
    let (digest, syncs) = digest_of(0, 1);
    assert_eq!(syncs, 8);
    assert_eq!((digest, syncs), digest_of(0, 1));
    assert_ne!(digest, digest_of(0, 2).0, "another seed");
    assert_ne!(digest, digest_of(4, 1).0, "another mode");
}
