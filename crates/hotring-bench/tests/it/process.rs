//! A server of this very code in a process of its own, for tests that look at the process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotring_server::Config;

/// Where [`serve`] is told how it is to be started, as hotring is.
const WORDS: &str = "HOTRING_BENCH_WORDS";

const START_MAX: Duration = Duration::from_secs(60);

/// A server until the process is ended.
#[test]
#[ignore = "a server for the tests beside it"]
fn serve() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let mut config = Config { owns_process: true, ..Config::default() };
    for setting in words[1..].chunks(2) {
        let [name, value] = setting else { panic!("{setting:?} is no setting and its value") };
        let name = name.strip_prefix("--").expect("settings begin so");
        config.set(name, value, "the test").expect("it is a setting");
    }
    hotring_server::start(config).expect("it can be started").wait().expect("it ends well");
}

/// A program in this folder that is started as hotring. The program beside the tool may be an old build.
pub fn program(folder: &Path) -> PathBuf {
    let this = std::env::current_exe().expect("this test has a file");
    let script = format!(
        "#!/bin/sh\n{WORDS}=\"$*\" exec '{}' --exact process::serve --ignored\n",
        this.display()
    );
    let path = folder.join("serve");
    std::fs::write(&path, script).expect("a place for a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("it is ours");
    path
}

/// As [`program`], with the command line beside the tool for clusters and proxies. None without that.
pub fn cluster_program(folder: &Path) -> Option<PathBuf> {
    let tool = Path::new(env!("CARGO_BIN_EXE_hotring-bench"));
    let hotring = tool.with_file_name("hotring");
    let served = program(folder);
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in cluster | proxy) exec '{}' \"$@\" ;; esac\nexec '{}' \"$@\"\n",
        hotring.display(),
        served.display()
    );
    let path = folder.join("hotring");
    std::fs::write(&path, script).expect("a place for a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("it is ours");
    hotring.exists().then_some(path)
}

/// One that is ended with the test.
pub struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.expect("loopback has a free port");
        let this = std::env::current_exe().expect("this test has a file");
        let child = Command::new(this)
            .args(["--exact", "process::serve", "--ignored"])
            .env(WORDS, format!("serve --listen {address} --threads 2"))
            .stdout(Stdio::null())
            .spawn()
            .expect("this test can be run");
        let process = Process { child, address };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < START_MAX, "the server does not answer at {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
        process
    }

    pub fn address(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is gone already where either fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
