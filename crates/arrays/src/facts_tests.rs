//! What an array says of itself, each fact from what its members say.

use super::script_rig::Scripted;
use super::*;
use nearhead_disk::{BufferMut, CommandId, Payload};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};

fn disk(properties: Properties) -> InstantDisk {
    InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO)
}

fn plain(name: &str) -> Properties {
    Properties { name: name.to_owned(), ..plain_properties(1 << 30, 512) }
}

fn both(one: &Properties, other: &Properties) -> [Properties; 2] {
    let disks = || vec![disk(one.clone()), disk(other.clone())];
    let stripe = Stripe::new(disks(), 64 << 10).unwrap();
    let mirror = Mirror::new(disks(), ReadPolicy::First).unwrap();
    [stripe.properties().clone(), mirror.properties().clone()]
}

#[test]
fn every_fact_of_an_array_is_that_of_its_members_or_of_the_worst_of_them() {
    for (members, name) in both(&plain("a"), &plain("b"))
        .into_iter()
        .zip(["raid0:a, b in chunks of 64 KiB", "mirror:a, b"])
    {
        assert_eq!(members.name, name);
    }
    let turning = |micros| Properties {
        rotational: true,
        rotation_period: Some(Nanos::from_micros(micros)),
        ..plain("a")
    };
    for (other, period) in
        [(turning(4000), Some(Nanos::from_micros(4000))), (turning(8000), None), (plain("b"), None)]
    {
        for array in both(&turning(4000), &other) {
            assert!(array.rotational);
            assert_eq!(array.rotation_period, period);
        }
    }
    let other = Properties {
        sector_bytes: 4096,
        physical_sector_bytes: 8192,
        volatile_cache: true,
        trim_reads_zero: true,
        fast_zero: false,
        ..plain("b")
    };
    for array in both(&plain("a"), &other) {
        assert_eq!((array.sector_bytes, array.physical_sector_bytes), (4096, 8192));
        assert!(array.volatile_cache && !array.trim_reads_zero && !array.fast_zero);
        assert_eq!(array.validate(), Ok(()));
    }
}

#[test]
fn a_stripe_takes_at_once_what_its_members_take_of_whole_chunks() {
    const MIB: u32 = 1 << 20;
    for (members, chunk_bytes, of_member, expected) in [
        (3, 16 << 10, 100 << 10, 3 * (96 << 10)),
        (2, 64 << 10, 64 << 10, 128 << 10),
        (3, 128 << 10, 64 << 10, 64 << 10),
        // It is put together in memory, so there is a bound.
        (4, 1 << 20, 16 * MIB, 32 * MIB),
        (2, 1 << 20, 48 * MIB, 48 * MIB),
        (2, 4 << 10, MIB, 2 * MIB),
    ] {
        let member =
            || disk(Properties { transfer_bytes_max: of_member, queue_depth_max: 7, ..plain("a") });
        let stripe = Stripe::new((0..members).map(|_| member()).collect(), chunk_bytes).unwrap();
        let found = stripe.properties();
        assert_eq!(found.transfer_bytes_max, expected, "{members} with {of_member}");
        assert_eq!((found.queue_depth_max, found.width), (7 * members, u32::from(members)));
    }
}

#[test]
fn chunks_are_from_4_kib_to_16_mib() {
    let made =
        |chunk_bytes| Stripe::new(vec![disk(plain("a")), disk(plain("b"))], chunk_bytes).is_ok();
    assert_eq!([2 << 10, 4 << 10, 16 << 20, 32 << 20].map(made), [false, true, true, false]);
}

#[test]
fn a_stripe_is_as_wide_as_its_members_together_and_a_mirror_is_one() {
    let one = || Box::new(disk(plain("a"))) as Box<dyn Disk>;
    let inner = Stripe::new(vec![one(), one()], 4096).unwrap();
    let outer = Stripe::new(vec![Box::new(inner) as Box<dyn Disk>, one()], 4096).unwrap();
    assert_eq!(outer.properties().width, 3);
    assert_eq!(Mirror::new(vec![one(), one()], ReadPolicy::First).unwrap().properties().width, 1);
}

#[test]
fn a_stripe_has_no_trouble_but_that_of_its_members_and_nothing_to_leave() {
    let member = || Scripted::small(|_, _| 10);
    let mirror = || Mirror::new(vec![member(), member()], ReadPolicy::First).unwrap();
    let mut stripe = Stripe::new(vec![mirror(), mirror()], 4096).unwrap();
    assert_eq!(stripe.trouble(), None);
    stripe.leave();
    assert!(stripe.has_left());
    stripe.member(1).member(0).fail(|command| !matches!(command, Command::Read { .. }), false);
    let ticket = Ticket::new(CommandId(1));
    let command = Command::Flush;
    stripe.submit(Submission { ticket, class: Class::Foreground, command }, Nanos::ZERO);
    assert!(stripe.poll(Nanos::from_secs(1)).unwrap().result.is_ok());
    assert_eq!(stripe.trouble(), stripe.member(1).trouble());
    assert!(stripe.trouble().unwrap().contains("1 of 2 members left"));
}

#[test]
fn no_member_of_a_stripe_gets_an_empty_part() {
    let part = |len: usize| Payload::Bytes(BufferMut::zeroed(len).freeze());
    let mut stripe =
        Stripe::new((0..2).map(|_| Scripted::small(|_, _| 10)).collect(), 4096).unwrap();
    let parts = vec![Payload::EMPTY, part(4096), Payload::EMPTY, part(4096), Payload::EMPTY];
    let command = Command::Write { offset: 2048, parts, durable: false };
    let ticket = Ticket::new(CommandId(1));
    stripe.submit(Submission { ticket, class: Class::Foreground, command }, Nanos::ZERO);
    assert!(stripe.poll(Nanos::from_secs(1)).unwrap().result.is_ok());
    for index in 0..2 {
        for asked in stripe.member(index).asked() {
            let Command::Write { parts, .. } = asked.command else { panic!("not a write") };
            assert!(parts.iter().all(|part| !part.is_empty()), "{parts:?}");
        }
    }
}
