//! A real etcd of one member or several, on free ports of this machine, in a folder that is removed afterwards.
//!
//! `HOTRING_ETCD` names the program, as `cargo xtask prove coordinator` does. Without it the tests print so and do
//! nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotring_coordinator::{Coordinator, Etcd, EtcdOptions};

use crate::Folder;
use crate::conformance::LONG;

/// The program, if the tests with it are asked for.
pub fn program() -> Option<PathBuf> {
    let program = std::env::var_os("HOTRING_ETCD").map(PathBuf::from);
    if program.is_none() {
        eprintln!("skipped: HOTRING_ETCD names no etcd; cargo xtask prove coordinator brings one");
    }
    program
}

/// A certificate or key of the server's tests.
pub fn certificate(name: &str) -> PathBuf {
    let folder = "../hotring-server/tests/it/certificates";
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

struct Member {
    client: u16,
    peer: u16,
    process: Option<Child>,
}

pub struct Server {
    program: PathBuf,
    folder: Folder,
    members: Vec<Member>,
    tls: bool,
}

impl Server {
    pub fn start(program: PathBuf, name: &str, count: usize, tls: bool) -> Server {
        // All at once, so that they differ.
        let open = || TcpListener::bind("127.0.0.1:0").unwrap();
        let ports: Vec<TcpListener> = (0..2 * count).map(|_| open()).collect();
        let port = |n: usize| ports[n].local_addr().unwrap().port();
        let member = |n| Member { client: port(2 * n), peer: port(2 * n + 1), process: None };
        let members = (0..count).map(member).collect();
        drop(ports);
        let folder = Folder::new(&format!("etcd-{name}"));
        std::fs::create_dir_all(folder.path()).unwrap();
        let mut server = Server { program, folder, members, tls };
        (0..count).for_each(|n| server.start_member(n));
        server
    }

    pub fn start_member(&mut self, n: usize) {
        let peer = |member: &Member| format!("http://127.0.0.1:{}", member.peer);
        let all = self.members.iter().enumerate();
        let all: Vec<String> = all.map(|(n, member)| format!("m{n}={}", peer(member))).collect();
        let scheme = if self.tls { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.members[n].client);
        let own = peer(&self.members[n]);
        let log = std::fs::File::create(self.folder.path().join(format!("m{n}.log"))).unwrap();
        let mut command = Command::new(&self.program);
        command.args(["--name", &format!("m{n}"), "--data-dir"]);
        command.arg(self.folder.path().join(format!("m{n}")));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &own, "--initial-advertise-peer-urls", &own]);
        command.args(["--initial-cluster", &all.join(",")]);
        // Half of the usual times, which bound the shortest lease, too.
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
        if self.tls {
            command.arg("--cert-file").arg(certificate("server.pem"));
            command.arg("--key-file").arg(certificate("server.key"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.members[n].process = Some(command.spawn().expect("etcd starts"));
    }

    pub fn kill(&mut self, n: usize) {
        if let Some(mut process) = self.members[n].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Stops a member in the middle of whatever it does, and waits until all its threads stand still.
    pub fn stop(&self, n: usize) {
        self.signal(n, "-STOP");
        let Some(process) = &self.members[n].process else { return };
        let tasks = format!("/proc/{}/task", process.id());
        let stands = |task: &Path| {
            let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('T'))
        };
        let start = Instant::now();
        loop {
            let mut tasks = std::fs::read_dir(&tasks).unwrap();
            if tasks.all(|task| task.is_ok_and(|task| stands(&task.path()))) {
                return;
            }
            assert!(start.elapsed() < LONG, "it does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets a stopped member go on.
    pub fn go_on(&self, n: usize) {
        self.signal(n, "-CONT");
    }

    fn signal(&self, n: usize, signal: &str) {
        let Some(process) = &self.members[n].process else { return };
        let sent = Command::new("kill").args([signal, &process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub fn options(&self, cluster: &str) -> EtcdOptions {
        let members: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.client)).collect();
        let scheme = if self.tls { "etcds" } else { "etcd" };
        EtcdOptions {
            address: format!("{scheme}://{}", members.join(",")).parse().unwrap(),
            cluster: cluster.to_owned(),
            user: None,
            tls: None,
            limit: Duration::from_secs(5),
        }
    }

    pub fn coordinator(&self, cluster: &str) -> Etcd {
        Etcd::new(self.options(cluster)).unwrap()
    }

    /// The answer of a member to a request of its API without TLS.
    pub fn post(&self, n: usize, path: &str, body: &str) -> serde_json::Value {
        self.post_as("", n, path, body)
    }

    /// The same with a user's token.
    pub fn post_as(&self, token: &str, n: usize, path: &str, body: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[n].client)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let len = body.len();
        let token = if token.is_empty() { "" } else { &format!("Authorization: {token}\r\n") };
        let heads = format!("Content-Length: {len}\r\n{token}");
        let request = format!("POST /v3/{path} HTTP/1.0\r\n{heads}\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 OK"), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// The member that leads.
    pub fn leader(&self) -> usize {
        let leads = |n: &usize| {
            let status = self.post(*n, "maintenance/status", "{}");
            status["header"]["member_id"] == status["leader"]
        };
        (0..self.members.len()).find(leads).expect("a member leads")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|n| self.kill(n));
        if std::thread::panicking() {
            for n in 0..self.members.len() {
                let log = std::fs::read_to_string(self.folder.path().join(format!("m{n}.log")));
                let log = log.unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(10).collect();
                eprintln!("the last lines of member {n}, backwards:\n{}", last.join("\n"));
            }
        }
    }
}

/// Waits until etcd answers.
pub async fn answers(it: &dyn Coordinator) {
    let start = Instant::now();
    while let Err(failure) = it.read().await {
        assert!(start.elapsed() < 2 * LONG, "{failure}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
