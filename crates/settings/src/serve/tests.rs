//! What a volume file and flags say together.

use super::*;

fn file_with(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("nearhead-config-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn flags_win_over_the_volume_file() {
    let text = "target = \"a.img\"\nsocket = \"a.sock\"\nack = \"durable\"\nwatermark = 50\n\
                checkpoint_window = \"22:00-06:00\"\nexport = [\"disk\"]\n";
    let path = file_with("flags", text);
    let flags = ServeArgs {
        config: Some(path.clone()),
        socket: Some("b.sock".into()),
        ..ServeArgs::default()
    };
    let merged = flags.merged_with_file().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(merged.target(), Ok("a.img"));
    assert_eq!(merged.socket, Some("b.sock".into()));
    assert_eq!(merged.ack, Some(AckArg::Durable));
    assert_eq!(merged.watermark, Some(50));
    assert_eq!(merged.checkpoint_window, Some(Window { start_s: 79_200, end_s: 21_600 }));
    assert_eq!(merged.export, ["disk"]);
}

#[test]
fn a_volume_file_may_say_nothing_that_a_flag_may_not() {
    for (text, part) in [
        ("watermark = 101", "watermark: expected 0 to 100 percent, found 101"),
        ("swap_above = 255", "swap_above: expected 0 to 100 percent, found 255"),
        ("connections_max = 0", "connections_max: expected at least 1, found 0"),
        ("nice = 20", "nice: expected -20 to 19, found 20"),
        ("nice = -21", "nice: expected -20 to 19, found -21"),
    ] {
        assert_eq!(ServeArgs::from_text(text).unwrap_err(), part);
    }
    assert_eq!(ServeArgs::from_text("watermark = 100").unwrap().watermark, Some(100));
}

#[test]
fn a_volume_file_may_say_all_that_flags_may() {
    let text = "io = \"threads\"\npage_cache = true\ndirect_reads = true\nrotational = true\nmap_device = \"a.map\"\n\
                data_devices = [\"a.data\", \"mirror:b,c\"]\n";
    let merged = ServeArgs::default().completed_by(ServeArgs::from_text(text).unwrap());
    let disk = merged.disk;
    assert_eq!(
        (disk.io, disk.page_cache, disk.direct_reads, disk.rotational),
        (IoEngine::Threads, Some(true), true, Some(true))
    );
    assert_eq!(disk.map_device, Some("a.map".into()));
    assert_eq!(disk.data_devices, ["a.data", "mirror:b,c"]);

    // Each flag by its name, but for what only a command line needs.
    let command = <ServeArgs as clap::Args>::augment_args(clap::Command::new("serve"));
    for name in command.get_arguments().map(|argument| argument.get_id().as_str()) {
        let error = ServeArgs::from_text(&format!("{name} = {{}}")).unwrap_err();
        let is_known = !error.contains("unknown field");
        assert_eq!(
            is_known,
            !matches!(name, "config" | "json" | "chain" | "without_log"),
            "{name}: {error}"
        );
    }
}

#[test]
fn data_devices_in_a_volume_file_are_a_text_or_a_list_and_a_flag_wins() {
    for (text, expected) in [
        ("", vec![]),
        ("data_devices = \"a,b\"", vec!["a,b"]),
        ("data_devices = [\"a\", \"b\"]", vec!["a", "b"]),
    ] {
        let file = ServeArgs::from_text(text).unwrap();
        assert_eq!(ServeArgs::default().completed_by(file).disk.data_devices, expected, "{text}");
    }
    let disk = DiskArgs { data_devices: vec!["c".to_owned()], ..DiskArgs::default() };
    let flags = ServeArgs { disk, ..ServeArgs::default() };
    let file = ServeArgs::from_text("data_devices = \"a,b\"").unwrap();
    assert_eq!(flags.completed_by(file).disk.data_devices, ["c"]);
    let error = ServeArgs::from_text("data_devices = 7").unwrap_err();
    assert!(
        error.contains("expected the name of a data device or log device, or a list"),
        "{error}"
    );
}

#[test]
fn variables_for_a_shell_are_named_as_such() {
    let text = "# the volume\nNEARHEAD_VOLUME=/dev/sdb\nNEARHEAD_OPTIONS=--ack flush\n";
    let error = ServeArgs::from_text(text).unwrap_err();
    for part in ["TOML", "target = ", "ack = \"flush\""] {
        assert!(error.contains(part), "{part:?} is missing in {error}");
    }
    let missing = file_with("older.toml", "");
    std::fs::rename(&missing, missing.with_extension("conf")).unwrap();
    let flags = ServeArgs { config: Some(missing.clone()), ..ServeArgs::default() };
    let error = flags.merged_with_file().unwrap_err();
    std::fs::remove_file(missing.with_extension("conf")).unwrap();
    assert!(error.contains("older.conf is of an older form"), "{error}");
}

#[test]
fn who_may_connect_is_said_in_a_volume_file_too() {
    let file = ServeArgs::from_text("socket_mode = \"0660\"\nsocket_group = \"kvm\"").unwrap();
    let merged = ServeArgs::default().completed_by(file);
    assert_eq!(merged.socket_mode, Some(SocketMode(0o660)));
    assert_eq!(merged.socket_group.as_deref(), Some("kvm"));
    assert!(ServeArgs::from_text("socket_mode = \"0999\"").is_err());
}

#[test]
fn shared_keys_are_said_in_a_volume_file_too_and_a_flag_wins() {
    let file = || ServeArgs::from_text("tls_psk = \"a.psk\"\ntls_optional = true").unwrap();
    let merged = ServeArgs::default().completed_by(file());
    assert_eq!((merged.tls_psk, merged.tls_optional), (Some("a.psk".into()), true));
    let flags = ServeArgs { tls_psk: Some("b.psk".into()), ..ServeArgs::default() };
    assert_eq!(flags.completed_by(file()).tls_psk, Some("b.psk".into()));
}

#[test]
fn coordination_is_said_by_a_table_or_by_two_names_or_by_flags() {
    let place: PermitsPlace = "zk://a:2181,b:2181/p".parse().unwrap();
    for (text, permits) in [
        ("checkpoint = { coordinate = \"zk://a:2181,b:2181/p\", permits = 2 }", 2),
        ("checkpoint = { coordinate = \"zk://a:2181,b:2181/p\" }", 1),
        ("checkpoint_coordinate = \"zk://a:2181,b:2181/p\"\ncheckpoint_permits = 3", 3),
    ] {
        let file = ServeArgs::from_text(text).unwrap();
        let merged = ServeArgs::default().completed_by(file);
        assert_eq!(merged.coordination(), Ok(Some((&place, permits))), "{text}");
    }
    let flags = ServeArgs { checkpoint_permits: Some(7), ..ServeArgs::default() };
    let file = "checkpoint = { coordinate = \"zk://a:2181,b:2181/p\", permits = 2 }";
    let merged = flags.completed_by(ServeArgs::from_text(file).unwrap());
    assert_eq!(merged.coordination(), Ok(Some((&place, 7))), "flags win");
    assert_eq!(ServeArgs::default().coordination(), Ok(None));
    let error = flags.coordination().unwrap_err();
    assert!(error.contains("expected --checkpoint-coordinate"), "{error}");
}

#[test]
fn an_identity_is_said_with_the_ensemble_it_is_for() {
    let file = PathBuf::from("/etc/nearhead/zk");
    for text in [
        "checkpoint = { coordinate = \"zk://a:1/p\", identity = \"/etc/nearhead/zk\" }",
        "checkpoint_coordinate = \"zk://a:1/p\"\ncheckpoint_identity = \"/etc/nearhead/zk\"",
    ] {
        let merged = ServeArgs::default().completed_by(ServeArgs::from_text(text).unwrap());
        assert!(matches!(merged.coordination(), Ok(Some(_))), "{text}");
        assert_eq!(merged.checkpoint_identity.as_ref(), Some(&file), "{text}");
    }
    let alone = ServeArgs { checkpoint_identity: Some(file), ..ServeArgs::default() };
    let error = alone.coordination().unwrap_err();
    assert!(error.contains("expected --checkpoint-coordinate"), "{error}");
}

#[test]
fn wrong_coordination_in_a_volume_file_is_named() {
    for (text, part) in [
        ("checkpoint = { permits = 1 }", "missing field `coordinate`"),
        ("checkpoint = { coordinate = \"zk://a:1/p\", permit = 1 }", "unknown field `permit`"),
        (
            "checkpoint = { coordinate = \"zk://a:1/p\", permits = 0 }",
            "expected 1 to 1000, found 0",
        ),
        ("checkpoint = { coordinate = \"zk://a:1/p\", permits = -1 }", "invalid value"),
        ("checkpoint_permits = 1001", "expected 1 to 1000, found 1001"),
        ("checkpoint = { coordinate = \"zk://a/p\" }", "\"a\" names no port"),
        ("checkpoint_permits = 1\ncheckpoint = { coordinate = \"zk://a:1/p\" }", "found both"),
        ("checkpoint_identity = \"f\"\ncheckpoint = { coordinate = \"zk://a:1/p\" }", "found both"),
    ] {
        let error = ServeArgs::from_text(text).unwrap_err();
        assert!(error.contains(part), "{text:?}: {part:?} is missing in {error:?}");
    }
}

#[test]
fn a_mistake_in_the_volume_file_is_named_with_its_line() {
    let path = file_with("mistake", "target = \"a.img\"\nscoket = \"a.sock\"\n");
    let flags = ServeArgs { config: Some(path.clone()), ..ServeArgs::default() };
    let error = flags.merged_with_file().unwrap_err();
    std::fs::remove_file(&path).unwrap();
    let shown = path.display().to_string();
    for part in [shown.as_str(), "line 2", "scoket"] {
        assert!(error.contains(part), "{part:?} is missing in {error}");
    }
}
