//! A server of this very code in a process of its own, for tests that look at the process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotring_server::Config;

/// Where [`serve`] is told what it is to be.
pub const LISTEN: &str = "HOTRING_BENCH_LISTEN";
pub const THREADS: &str = "HOTRING_BENCH_THREADS";

const START_MAX: Duration = Duration::from_secs(60);

/// A server until somebody ends the process.
#[test]
#[ignore = "a server for the tests beside it"]
fn serve() {
    let (Ok(listen), Ok(threads)) = (std::env::var(LISTEN), std::env::var(THREADS)) else { return };
    let threads = threads.parse().expect("a number");
    let config = Config { listen: vec![listen], threads, ..Config::default() };
    hotring_server::start(config).expect("it can listen").wait();
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
            .env(LISTEN, address.to_string())
            .env(THREADS, "2")
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
