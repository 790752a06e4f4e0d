//! A real ZooKeeper server on loopback for tests: unmodified jars from the local Maven repository, one process.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(unreachable_pub, reason = "a module of several test binaries")]

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine before a test gives up.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Groups of jars that a server with nothing but its client port needs.
const GROUPS: [&str; 6] = [
    "org/apache/zookeeper",
    "io/netty",
    "org/slf4j/slf4j-api",
    "ch/qos/logback",
    "io/dropwizard/metrics",
    "org/xerial",
];

/// A server; killed when dropped.
pub struct Server {
    directory: PathBuf,
    port: u16,
    jars: OsString,
    process: Option<Child>,
}

fn find_jars(directory: &Path, jars: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            find_jars(&path, jars);
        } else if name.strip_suffix(".jar").is_some_and(|name| !name.ends_with("-sources")) {
            jars.push(path);
        }
    }
}

fn classpath() -> Result<OsString, String> {
    let home = std::env::var_os("HOME").ok_or("HOME is not set")?;
    let repository = Path::new(&home).join(".m2/repository");
    let mut jars = Vec::new();
    for group in GROUPS {
        find_jars(&repository.join(group), &mut jars);
    }
    // The newest of each first.
    jars.sort_by(|one, other| other.cmp(one));
    let has = |name: &str| {
        jars.iter()
            .any(|jar| jar.file_name().is_some_and(|jar| jar.to_string_lossy().starts_with(name)))
    };
    for name in
        ["zookeeper-3", "zookeeper-jute-3", "netty-handler-", "slf4j-api-2", "logback-classic-"]
    {
        if !has(name) {
            return Err(format!(
                "no {name}*.jar in ~/.m2; `mvn -f bindings/java/pom.xml package -DskipTests` downloads it"
            ));
        }
    }
    std::env::join_paths(jars).map_err(|error| error.to_string())
}

impl Server {
    /// Starts a server in `directory`; `None`, and why printed, where there is no Java or no ZooKeeper.
    pub fn start(directory: &Path) -> Option<Self> {
        let java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
        let jars = match (java, classpath()) {
            (Ok(status), Ok(jars)) if status.success() => jars,
            (Ok(_), Err(why)) => {
                println!("skipped: {why}");
                return None;
            }
            _ => {
                println!("skipped: no java");
                return None;
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        std::fs::create_dir_all(directory.join("data")).unwrap();
        let mut server = Self { directory: directory.to_owned(), port, jars, process: None };
        server.restart();
        Some(server)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it (again), with what it had made durable.
    pub fn restart(&mut self) {
        let settings = format!(
            "tickTime=200\ndataDir={}\nclientPortAddress=127.0.0.1\nclientPort={}\nadmin.enableServer=false\n\
             4lw.commands.whitelist=ruok\n",
            self.directory.join("data").display(),
            self.port
        );
        let path = self.directory.join("zoo.cfg");
        std::fs::write(&path, settings).unwrap();
        let log = std::fs::File::create(self.directory.join("server.log")).unwrap();
        let process = Command::new("java")
            .args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp"])
            .arg(&self.jars)
            .arg("org.apache.zookeeper.server.ZooKeeperServerMain")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.process = Some(process);
        await_that("the server to serve", || self.answers());
    }

    fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address()) else { return false };
        let mut answer = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(b"ruok").is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer == "imok"
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks again and again until `is_so`.
pub fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited {LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A folder that goes away with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let name = format!("nh-zk-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
