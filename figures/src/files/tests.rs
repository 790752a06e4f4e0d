//! Whoever uses a file system here does the same each time, and nothing else than said.

use super::{
    BulkFile, BulkFileOptions, Durable, Postmark, PostmarkOptions, SmallFiles, SmallFilesOptions,
};
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

/// Transactions and writes, and the digest of all answers.
fn postmark(seed: u64, request_bytes: u32) -> (u64, u64, u64) {
    let method = mlfs::methods().unwrap().swap_remove(0);
    let (mut bench, folder) = mlfs::bench(&method, 1, |image| image.folder("mail")).unwrap();
    let options = PostmarkOptions {
        folder,
        files: 20,
        threads: 4,
        transactions: 60,
        request_bytes,
        reads: true,
        seed,
    };
    let postmark = Postmark::new(options);
    postmark.start_creating(&mut bench);
    bench.run(Nanos::from_secs(100)).unwrap();
    assert!(bench.is_finished());
    postmark.start_transactions(&mut bench);
    bench.run(Nanos::from_secs(1000)).unwrap();
    assert!(bench.is_finished());
    let (done, ends) = postmark.done();
    (done, postmark.writes(ends).0, bench.digest())
}

#[test]
fn all_transactions_on_small_files_are_done_and_the_same_seed_chooses_the_same() {
    let (done, writes, digest) = postmark(1, 128 << 10);
    assert_eq!(done, 60);
    // A request takes any of these files, so each new or longer one is one write.
    assert!((45..75).contains(&writes), "{writes}");
    assert_eq!((done, writes, digest), postmark(1, 128 << 10));
    assert_ne!(digest, postmark(2, 128 << 10).2);
    assert!(postmark(1, 512).1 > 5 * writes, "more requests");
}

/// A copy of a large file, and a client that syncs small files: a commit keeps no `fsync` waiting for all that is dirty.
#[test]
fn an_fsync_next_to_a_copy_waits_for_few_pages_of_it() {
    const BULK_BYTES: u64 = 2 << 30;
    let methods = mlfs::methods().unwrap();
    for (mode, p99_ms_max) in [("data", 300.0), ("nearhead", 25.0)] {
        let method = methods.iter().find(|method| method.name == mode).unwrap();
        let (mut bench, (ino, files)) = mlfs::bench(method, 1, |image| {
            let bulk = image.file(nearhead_ext4::ROOT, "bulk", BULK_BYTES)?;
            Ok((bulk, SmallFiles::scattered(image, FILES)?))
        })
        .unwrap();
        let (file_bytes, call_bytes, threads, writes) = (BULK_BYTES, 1 << 20, 2, true);
        let copy = BulkFileOptions { ino, file_bytes, call_bytes, threads, writes };
        BulkFile::start(&mut bench, copy);
        let (ends_with, syncs_per_s, seed) = (Durable::Fsyncs, 4.0, 1);
        let options = SmallFilesOptions { files, syncs_per_s, ends_with, seed };
        let client = SmallFiles::start(&mut bench, options);
        let span = Span { warm_up: Nanos::from_secs(3), measured: Nanos::from_secs(10) };
        mlfs::measured(&mut bench, span).unwrap();
        let syncs = client.syncs(bench.now());
        assert!(syncs.requests >= 39, "{mode}: {} of 40 syncs", syncs.requests);
        let p99_ms = syncs.latency.p99_ms;
        assert!(p99_ms <= p99_ms_max, "{mode}: {p99_ms} ms, at most {p99_ms_max}");
    }
}
