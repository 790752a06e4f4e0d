//! Real clients of other projects, each doing what it is used for.
//!
//! A tool that is not installed is named with the package that has it, and its test is skipped.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_nbd::{TlsFiles, TlsMode};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{DISK_BYTES, Directory, TestServer, pattern, run, run_failing, tool, write_file};

#[test]
fn nbdinfo_finds_every_promise_kept() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let server = TestServer::start();
    let found = run(nbdinfo.arg(server.uri("")));
    for line in [
        "protocol: newstyle-fixed without TLS, using structured packets",
        "export-size: 67108864 (64M)",
        "description: memory",
        "base:allocation",
        "is_rotational: true",
        "is_read_only: false",
        "can_cache: true",
        "can_df: true",
        "can_fast_zero: true",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "block_size_minimum: 1",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(found.contains(line), "{line} is missing in\n{found}");
    }
    let map = run(tool("nbdinfo", "").unwrap().arg("--map").arg(server.uri("")));
    assert_eq!(map.split_whitespace().collect::<Vec<_>>(), ["0", "67108864", "0", "data"]);
}

#[test]
fn exports_are_listed_and_found_by_name() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let names = |builder: support::Builder| builder.export("first").export("second");
    let server = TestServer::start_with(names, support::Bare::read_only);
    let list = run(nbdinfo.arg("--list").arg(server.uri("")));
    assert!(list.contains("export=\"first\"") && list.contains("export=\"second\""), "{list}");
    let info = run(tool("nbdinfo", "").unwrap().arg(server.uri("second")));
    assert!(info.contains("is_read_only: true"), "{info}");
    let words = run_failing(tool("nbdinfo", "").unwrap().arg(server.uri("third")));
    assert!(words.contains("third"), "{words}");
}

#[test]
fn nbdcopy_brings_back_what_it_took_there() {
    let Some(mut nbdcopy) = tool("nbdcopy", "libnbd-bin") else { return };
    let server = TestServer::start();
    let (there, back) = (server.directory.path("there"), server.directory.path("back"));
    let bytes = pattern(1, DISK_BYTES as usize);
    write_file(&there, &bytes);
    run(nbdcopy.arg("--flush").arg(&there).arg(server.uri("")));
    run(tool("nbdcopy", "").unwrap().args(["--connections=4"]).arg(server.uri("")).arg(&back));
    assert!(std::fs::read(&back).unwrap() == bytes, "the copy differs");
}

#[test]
fn qemu_img_converts_and_compares() {
    let Some(mut qemu_img) = tool("qemu-img", "qemu-utils") else { return };
    let server = TestServer::start();
    let (raw, uri) = (server.directory.path("raw"), server.uri(""));
    let mut bytes = pattern(2, DISK_BYTES as usize);
    bytes[1 << 20..20 << 20].fill(0);
    write_file(&raw, &bytes);
    run(qemu_img.args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&raw).arg(&uri));
    let mut compare = tool("qemu-img", "").unwrap();
    run(compare.args(["compare", "-f", "raw", "-F", "raw"]).arg(&raw).arg(&uri));
    let mut info = tool("qemu-img", "").unwrap();
    assert!(run(info.arg("info").arg(&uri)).contains("64 MiB"));
    let qcow2 = server.directory.path("qcow2");
    let mut convert = tool("qemu-img", "").unwrap();
    run(convert.args(["convert", "-O", "qcow2"]).arg(&uri).arg(&qcow2));
    let mut compare = tool("qemu-img", "").unwrap();
    run(compare.arg("compare").arg(&raw).arg(&qcow2));
}

#[test]
fn qemu_io_writes_zeroes_discards_and_flushes() {
    let Some(mut qemu_io) = tool("qemu-io", "qemu-utils") else { return };
    let server = TestServer::start();
    let mut commands = Vec::new();
    for command in [
        "write -P 0xaa 0 1M",
        "write -f -P 0xbb 1M 64k",
        "write -z 4k 8k",
        "write -z -u 64k 64k",
        "discard 128k 64k",
        "flush",
        "read -P 0xaa 0 4k",
        "read -P 0 4k 8k",
        "read -P 0 64k 128k",
        "read -P 0xaa 192k 832k",
        "read -P 0xbb 1M 64k",
        "aio_write -P 1 2M 64k",
        "aio_write -P 2 3M 64k",
        "aio_flush",
        "read -P 2 3M 64k",
    ] {
        commands.extend(["-c", command]);
    }
    let said = run(qemu_io.args(["-f", "raw"]).args(commands).arg(server.uri("")));
    assert!(!said.contains("failed") && !said.contains("rror"), "{said}");
}

#[test]
fn nbddump_reads_a_few_bytes_and_qemu_io_writes_them() {
    let Some(mut qemu_io) = tool("qemu-io", "qemu-utils") else { return };
    let server = TestServer::start();
    let mut commands = Vec::new();
    for command in [
        "write -P 0xaa 0 4k",
        "write -P 0xbb 1000 100",
        "write -f -P 0xcc 1100 1",
        "write -z 2000 1500",
        "read -P 0xaa 0 1000",
        "read -P 0xbb 1000 100",
        "read -P 0xcc 1100 1",
        "read -P 0xaa 1101 899",
        "read -P 0 2000 1500",
        "read -P 0xaa 3500 596",
    ] {
        commands.extend(["-c", command]);
    }
    let said = run(qemu_io.args(["-f", "raw"]).args(commands).arg(server.uri("")));
    assert!(!said.contains("failed") && !said.contains("rror"), "{said}");
    let Some(mut nbddump) = tool("nbddump", "libnbd-bin") else { return };
    let dump = run(nbddump.arg("--length=64").arg(server.uri("")));
    assert!(dump.contains("aa aa aa aa"), "{dump}");
}

#[test]
fn fio_verifies_what_it_wrote_with_many_requests_in_flight() {
    let Some(mut fio) = tool("fio", "fio") else { return };
    if !run(Command::new("fio").arg("--enghelp")).contains("nbd") {
        println!("skipped: this fio was built without its nbd engine");
        return;
    }
    let server = TestServer::start();
    let arguments = [
        "--name=verify",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bsrange=512-128k",
        "--bs_unaligned=0",
        "--iodepth=32",
        "--size=32m",
        "--fsync=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--randseed=7",
    ];
    // fio keeps its state in the working directory.
    fio.current_dir(server.directory.path("."));
    run(fio.args(arguments).arg(format!("--uri={}", server.uri(""))));
    assert!(server.count("writes") > 100);
}

const LIBNBD_SCRIPT: &str = r#"
import errno, nbd, os, sys
h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
assert h.get_structured_replies_negotiated()
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
data = os.urandom(65536)
h.pwrite(data, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(65536, 4096) == data
assert h.pread_structured(65536, 4096, lambda *arguments: 0, nbd.CMD_FLAG_DF) == data
seen = []
def chunk(buffer, offset, status, error):
    seen.append((offset, len(buffer), status))
buffer = h.pread_structured(65536, 4096, chunk)
assert buffer == data and sum(length for _, length, _ in seen) == 65536
h.zero(8192, 4096, nbd.CMD_FLAG_FAST_ZERO)
h.zero(8192, 16384, nbd.CMD_FLAG_NO_HOLE)
h.trim(4096, 40960)
h.cache(65536, 0)
h.flush()
assert h.pread(8192, 4096) == bytes(8192)
extents = []
h.block_status(1 << 20, 0, lambda context, offset, entries, error: extents.append(entries))
assert sum(extents[0][0::2]) == 1 << 20
h.set_strict_mode(0)
def fails(expected, operation, *arguments):
    try:
        operation(*arguments)
    except nbd.Error as error:
        assert error.errnum == expected, (error.string, error.errnum)
    else:
        raise AssertionError("a bad request was served")
fails(errno.EINVAL, h.pread, 512, h.get_size())
fails(errno.ENOSPC, h.pwrite, data, h.get_size() - 512)
fails(errno.EINVAL, h.trim, 1 << 20, h.get_size() - 512)
# Larger than sockets hold, and larger than the largest request: the connection lives on.
fails(errno.ENOSPC, h.pwrite, bytes(8 << 20), h.get_size() - 512)
fails(errno.EINVAL, h.pwrite, bytes(40 << 20), 0)
assert h.pread(512, 0) == bytes(512)
# Any byte.
h.pwrite(b"abc", 511)
h.pwrite(b"d", 514, nbd.CMD_FLAG_FUA)
assert h.pread(6, 510) == b"\0abcd\0"
h.zero(2, 512)
assert h.pread(6, 510) == b"\0a\0\0d\0"
h.trim(1, 514)
h.block_status(10, 7, lambda context, offset, entries, error: extents.append(entries))
assert extents[-1][0] == 10, extents
odd = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([i + 1]) * 7), i * 7) for i in range(64)]
while h.aio_in_flight():
    h.poll(-1)
assert all(h.aio_command_completed(cookie) for cookie in odd)
assert h.pread(64 * 7, 0) == b"".join(bytes([i + 1]) * 7 for i in range(64))
cookies = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([i]) * 4096), i * 4096) for i in range(64)]
while h.aio_in_flight():
    h.poll(-1)
for cookie in cookies:
    assert h.aio_command_completed(cookie)
assert all(h.pread(4096, i * 4096) == bytes([i]) * 4096 for i in range(64))
h.shutdown()
print("libnbd is content")
"#;

/// The system's Python, if it has libnbd.
fn python() -> Option<Command> {
    let path = Path::new("/usr/bin/python3");
    let has_libnbd = path.is_file()
        && Command::new(path)
            .args(["-c", "import nbd"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    if !has_libnbd {
        println!("skipped: Python has no libnbd (apt-get install python3-libnbd)");
    }
    has_libnbd.then(|| Command::new(path))
}

#[test]
fn libnbd_gets_every_operation_and_every_error() {
    let Some(mut python) = python() else { return };
    let server = TestServer::start();
    let said = run(python.args(["-c", LIBNBD_SCRIPT]).arg(server.uri("")));
    assert!(said.contains("content"));
}

#[test]
fn libnbd_hands_over_a_listening_socket() {
    let Some(mut python) = python() else { return };
    // Tests and examples lie in neighbouring directories.
    let example = std::env::current_exe().unwrap();
    let example = example.parent().unwrap().parent().unwrap().join("examples/serve_memory");
    if !example.is_file() {
        println!("skipped: the example serve_memory is not built (cargo build --examples)");
        return;
    }
    let script = "import nbd, sys\n\
                  h = nbd.NBD()\n\
                  h.connect_systemd_socket_activation([sys.argv[1], 'activated', '8'])\n\
                  h.pwrite(bytes([7]) * 512, 512)\n\
                  assert h.pread(512, 512) == bytes([7]) * 512\n\
                  assert h.get_size() == 8 << 20\n\
                  h.shutdown()\n";
    run(python.args(["-c", script]).arg(example));
}

#[test]
fn tcp_serves_as_well() {
    let Some(mut nbdcopy) = tool("nbdcopy", "libnbd-bin") else { return };
    let tcp = |builder: support::Builder| builder.listen_tcp("127.0.0.1:0").unwrap();
    let server = TestServer::start_with(tcp, |bare| bare);
    let (there, back) = (server.directory.path("there"), server.directory.path("back"));
    let bytes = pattern(3, DISK_BYTES as usize);
    write_file(&there, &bytes);
    let uri = format!("nbd://{}/", server.addresses[0]);
    run(nbdcopy.arg(&there).arg(&uri));
    run(tool("nbdcopy", "").unwrap().arg(&uri).arg(&back));
    assert!(std::fs::read(&back).unwrap() == bytes, "the copy differs");
}

/// Certificates for `localhost` in the form that libnbd and the server look for.
fn make_certificates(directory: &Directory) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    write_file(&directory.path("ca-cert.pem"), authority_certificate.pem().as_bytes());
    for (name, usage) in [
        ("server", rcgen::ExtendedKeyUsagePurpose::ServerAuth),
        ("client", rcgen::ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        write_file(&directory.path(&format!("{name}-cert.pem")), certificate.pem().as_bytes());
        write_file(&directory.path(&format!("{name}-key.pem")), key.serialize_pem().as_bytes());
    }
}

/// A server on TCP with TLS in this mode; clients must show a certificate if `mutual`.
fn tls_server(mode: TlsMode, mutual: bool) -> (TestServer, Directory) {
    let certificates = Directory::new();
    make_certificates(&certificates);
    let mut files = TlsFiles::in_directory(&certificates.path("."));
    if mutual {
        files.client_authority = Some(certificates.path("ca-cert.pem"));
    }
    let set_up = move |builder: support::Builder| {
        builder.listen_tcp("127.0.0.1:0").unwrap().tls(mode, files)
    };
    (TestServer::start_with(set_up, |bare| bare), certificates)
}

fn tls_uri(server: &TestServer, certificates: &Directory) -> String {
    let port = server.addresses[0].port();
    format!("nbds://localhost:{port}/?tls-certificates={}", certificates.path("").display())
}

#[test]
fn required_tls_lets_in_only_encrypted_clients() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let (server, certificates) = tls_server(TlsMode::Required, false);
    let info = run(nbdinfo.arg(tls_uri(&server, &certificates)));
    assert!(info.contains("newstyle-fixed with TLS"), "{info}");
    let plain = format!("nbd://{}/", server.addresses[0]);
    run_failing(tool("nbdinfo", "").unwrap().arg(plain));
}

#[test]
fn optional_tls_copies_correctly_with_and_without() {
    let Some(mut nbdcopy) = tool("nbdcopy", "libnbd-bin") else { return };
    let (server, certificates) = tls_server(TlsMode::Optional, true);
    let (there, back) = (server.directory.path("there"), server.directory.path("back"));
    let bytes = pattern(4, DISK_BYTES as usize);
    write_file(&there, &bytes);
    run(nbdcopy.arg(&there).arg(tls_uri(&server, &certificates)));
    run(tool("nbdcopy", "").unwrap().arg(tls_uri(&server, &certificates)).arg(&back));
    assert!(std::fs::read(&back).unwrap() == bytes, "the encrypted copy differs");
    run(tool("nbdcopy", "").unwrap().arg(server.uri("")).arg(&back));
    assert!(std::fs::read(&back).unwrap() == bytes, "the plain copy differs");
}

#[test]
fn a_client_without_the_demanded_certificate_is_cut_off() {
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let (server, certificates) = tls_server(TlsMode::Required, true);
    for name in ["client-cert.pem", "client-key.pem"] {
        std::fs::remove_file(certificates.path(name)).unwrap();
    }
    run_failing(nbdinfo.arg(tls_uri(&server, &certificates)));
}

#[test]
fn unusable_tls_files_are_named() {
    let certificates = Directory::new();
    make_certificates(&certificates);
    write_file(&certificates.path("server-key.pem"), b"not a key");
    let builder = nearhead_nbd::Server::<support::Bare>::builder();
    let error = builder
        .listen_unix(certificates.path("socket"))
        .unwrap()
        .tls(TlsMode::Required, TlsFiles::in_directory(&certificates.path("")))
        .build()
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("server-key.pem") && error.contains("expected a private key"),
        "{error}"
    );
}
