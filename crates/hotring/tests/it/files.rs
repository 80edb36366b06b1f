//! Tests that output files never destroy what was at their path, whatever it is.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{FileType, Mode, makedev, mknodat};
use rustix::process::Signal;

use crate::transfer::{ask, end, serve};
use crate::{Folder, Server, hotring, output, say, stderr};

const PAIR: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";

/// A server with one key.
fn server() -> Server {
    let server = serve();
    assert_eq!(ask(&mut server.connect(), &[b"SET", b"k", b"v"]), b"+OK");
    server
}

fn export(server: &Server, path: &Path) -> std::process::Command {
    let mut command = hotring(&["export", "--address", &server.address]);
    command.arg(path);
    command
}

/// Regression test: `hotring export /dev/null`, run by root, replaced the machine's device by a
/// regular file.
#[test]
fn export_writes_into_special_files() {
    let (folder, server) = (Folder::new("nodes"), server());
    let fifo = folder.0.join("fifo");
    mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reading = {
        let fifo = fifo.clone();
        std::thread::spawn(move || fs::read(fifo).unwrap())
    };
    let run = output(&mut export(&server, &fifo));
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo(), "the FIFO was replaced");
    assert!(run.status.success(), "{}", stderr(&run));
    assert_eq!(reading.join().unwrap(), PAIR);
    // Only root can make a device.
    let null = folder.0.join("null");
    let made = mknodat(
        rustix::fs::CWD,
        &null,
        FileType::CharacterDevice,
        Mode::RUSR | Mode::WUSR,
        makedev(1, 3),
    );
    if made.is_ok() {
        let run = output(&mut export(&server, &null));
        assert!(
            fs::symlink_metadata(&null).unwrap().file_type().is_char_device(),
            "the device was replaced"
        );
        // A container may forbid to open it.
        if File::options().write(true).open(&null).is_ok() {
            assert!(run.status.success(), "{}", stderr(&run));
        }
    }
    let run = output(&mut export(&server, &folder.0));
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("is a directory"), "{}", stderr(&run));
    assert_eq!(
        fs::read_dir(&folder.0).unwrap().count(),
        1 + usize::from(made.is_ok()),
        "nothing is left behind"
    );
    end(server);
}

/// `/dev/stdout` leads through `/proc` to an open file, which must be neither replaced nor
/// truncated. The test uses its own links of this kind, so that a fault cannot cost the machine its
/// device.
#[test]
fn export_writes_to_the_open_file_behind_a_descriptor() {
    let (folder, server) = (Folder::new("descriptor"), server());
    let (stdout, descriptors) = (folder.0.join("stdout"), folder.0.join("fd"));
    symlink("/proc/self/fd/1", &stdout).unwrap();
    symlink("/proc/self/fd", &descriptors).unwrap();
    let path = folder.0.join("out");
    fs::write(&path, "before\n").unwrap();
    let file = File::options().append(true).open(&path).unwrap();
    let mut command = export(&server, &stdout);
    let status = command.stdout(file).stderr(Stdio::null()).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read(&path).unwrap(), [b"before\n", PAIR].concat());
    let piped = output(&mut export(&server, &descriptors.join("1")));
    assert!(piped.status.success(), "{}", stderr(&piped));
    assert_eq!(piped.stdout, PAIR);
    end(server);
}

#[test]
fn export_follows_links_and_keeps_the_rights_of_a_file() {
    let (folder, server) = (Folder::new("links"), server());
    fs::create_dir(folder.0.join("far")).unwrap();
    let (file, link, dangling) =
        (folder.0.join("far/file"), folder.0.join("link"), folder.0.join("dangling"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let inode = fs::metadata(&file).unwrap().ino();
    symlink("far/file", &link).unwrap();
    symlink("far/new", &dangling).unwrap();
    for path in [&link, &dangling] {
        let run = output(&mut export(&server, path));
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(fs::symlink_metadata(path).unwrap().is_symlink(), "the link was replaced");
        assert_eq!(fs::read(path).unwrap(), PAIR);
    }
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(metadata.mode() & 0o777, 0o640);
    assert_ne!(metadata.ino(), inode, "readers of the old file keep it whole");
    assert_eq!(fs::metadata(folder.0.join("far/new")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.0.join("far")).unwrap().count(), 2, "nothing is left behind");
    symlink("circle", folder.0.join("circle")).unwrap();
    let run = output(&mut export(&server, &folder.0.join("circle")));
    assert_eq!(run.status.code(), Some(2), "{}", stderr(&run));
    end(server);
}

/// Regression test: ACL SAVE replaced a link to the file of users by a file; CONFIG REWRITE follows
/// links, too.
#[test]
fn the_server_keeps_links_to_its_files() {
    let folder = Folder::new("server-links");
    let users = folder.file("users.acl", "user default on nopass ~* &* +@all\n");
    let settings = folder.file("hotring.toml", "port = 0\ntimeout = 1\n");
    let links = ["users", "settings"].map(|name| folder.0.join(name));
    symlink(&users, &links[0]).unwrap();
    symlink(&settings, &links[1]).unwrap();
    let mut command = hotring(&["serve", "--aclfile"]);
    command.arg(&links[0]).arg("--config").arg(&links[1]);
    let server = Server::start(&mut command);
    let mut stream = server.connect();
    assert_eq!(say(&mut stream, "ACL SETUSER alice on nopass +get"), "+OK");
    assert_eq!(say(&mut stream, "ACL SAVE"), "+OK");
    assert_eq!(say(&mut stream, "CONFIG SET timeout 9"), "+OK");
    assert_eq!(say(&mut stream, "CONFIG REWRITE"), "+OK");
    assert!(links.iter().all(|link| fs::symlink_metadata(link).unwrap().is_symlink()));
    assert!(fs::read_to_string(&users).unwrap().contains("user alice on nopass"));
    assert!(fs::read_to_string(&settings).unwrap().contains("timeout = 9"));
    end(server);
}

/// Regression test: a server log whose reader was gone ended the server: `hotring serve 2>&1 | head
/// -5`.
#[test]
fn a_server_outlives_the_reader_of_its_log() {
    let folder = Folder::new("deaf");
    for format in ["human", "json"] {
        let socket = folder.0.join(format);
        let mut command =
            hotring(&["serve", "--port", "0", "--log-format", format, "--unixsocket"]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        // What the service manager is told comes after the greeting, and after signals are listened for.
        let told = folder.0.join(format!("{format}-told"));
        let manager = UnixDatagram::bind(&told).unwrap();
        manager.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        command.arg(&socket).stderr(writer).env("NOTIFY_SOCKET", &told);
        let mut process = command.spawn().unwrap();
        drop(command);
        let mut message = [0; 64];
        while manager.recv(&mut message).is_err() {
            assert_eq!(process.try_wait().unwrap(), None, "{format}: it has ended");
        }
        assert!(message.starts_with(b"READY=1"), "{format}: {message:?}");
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 1];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(process.try_wait().unwrap(), None, "{format}: it has ended");
        let pid = rustix::process::Pid::from_child(&process);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        assert!(process.wait().unwrap().success(), "{format}");
    }
}

/// Programs that print must end quietly when `head` closes the pipe.
#[test]
fn a_reader_that_leaves_is_no_failure() {
    let server = server();
    for words in [&["ping"][..], &["top", "--once"], &["export", "-"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = hotring(&words[..1]);
        command.args(["--address", &server.address]).args(&words[1..]).stdout(writer);
        let ended = output(&mut command);
        assert!(ended.status.code().is_some_and(|code| code <= 2), "{words:?}: {}", ended.status);
        assert!(!stderr(&ended).contains("panicked"), "{words:?}: {}", stderr(&ended));
    }
    end(server);
}

/// Regression test: the hint had the folders the wrong way round, and its command found no folder.
#[test]
fn the_hint_about_damage_is_a_command_that_works() {
    let folder = Folder::new("it's damaged");
    let data = folder.0.join("data").display().to_string();
    let words = ["serve", "--port", "0", "--log", "sync", "--save", "", "--data", &data];
    let server = Server::start(&mut hotring(&words));
    let mut stream = server.connect();
    for key in 0..20 {
        assert_eq!(say(&mut stream, &format!("SET key:{key} value")), "+OK");
    }
    end(server);
    let segment = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let segment =
        segment.into_iter().find(|path| path.to_string_lossy().contains("/log-")).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[200] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let refused = stderr(&output(&mut hotring(&words)));
    let checked = output(&mut hotring(&["check", &data]));
    assert_eq!(checked.status.code(), Some(1));
    let checked = String::from_utf8(checked.stdout).unwrap();
    let new = folder.0.join("new").display().to_string();
    for text in [refused, checked] {
        let hint = text.split('`').find(|part| part.starts_with("hotring check ")).unwrap();
        let program = env!("CARGO_BIN_EXE_hotring");
        let line = hint.replacen("hotring", program, 1).replace("NEWDIR", &format!("\"{new}\""));
        let repaired = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        let said = String::from_utf8_lossy(&repaired.stdout);
        assert!(said.contains("copied"), "{line}: {said}{}", stderr(&repaired));
        fs::remove_dir_all(&new).unwrap();
    }
}

/// Regression test: an empty folder counted as an intact log.
#[test]
fn a_folder_without_a_log_is_not_intact() {
    let folder = Folder::new("empty");
    let path = folder.0.display().to_string();
    let checked = output(&mut hotring(&["check", &path]));
    assert_eq!(checked.status.code(), Some(2));
    assert!(stderr(&checked).contains("neither a log nor a snapshot"), "{}", stderr(&checked));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is made there");
}

/// A server that kept 20 keys in this folder and has ended.
fn ended(data: &str) {
    let words = ["serve", "--port", "0", "--log", "sync", "--save", "", "--data", data];
    let server = Server::start(&mut hotring(&words));
    let mut stream = server.connect();
    for key in 0..20 {
        assert_eq!(say(&mut stream, &format!("SET key:{key} value")), "+OK");
    }
    end(server);
}

/// Regression test: each of these opened the folder for writing, for its lock, so that the image of
/// a broken disk that was mounted read-only could not be inspected.
#[test]
fn reading_a_folder_needs_no_write_permission() {
    let folder = Folder::new("read-only");
    let data = folder.0.join("data").display().to_string();
    ended(&data);
    // Permissions do not bind root: a mount that no other process sees.
    let run = |words: &str| {
        let program = env!("CARGO_BIN_EXE_hotring");
        let script = format!(
            "mount --bind {data} {data} && mount -o remount,ro,bind {data} && {program} {words}"
        );
        std::process::Command::new("unshare").args(["-rm", "sh", "-c", &script]).output()
    };
    match run("--version") {
        Ok(run) if run.status.success() => {}
        other => return println!("skipped, as nothing can be mounted here: {other:?}"),
    }
    let (new, file) = (folder.0.join("new"), folder.0.join("file"));
    for has_lock in [true, false] {
        if !has_lock {
            fs::remove_file(Path::new(&data).join("lock")).unwrap();
        }
        let _ = fs::remove_dir_all(&new);
        for words in [
            format!("check {data}"),
            format!("check {data} --repair {}", new.display()),
            format!("export --data {data} {}", file.display()),
        ] {
            let run = run(&words).unwrap();
            assert_eq!(run.status.code(), Some(0), "{words}: {}", stderr(&run));
        }
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(text.matches("value").count(), 20);
        let repaired = output(&mut hotring(&["check", &new.display().to_string()]));
        assert!(String::from_utf8_lossy(&repaired.stdout).contains("20 records in all"));
    }
    assert!(!Path::new(&data).join("lock").exists(), "a lock was left");
}

/// A folder must not change while it is read.
#[test]
fn a_folder_in_use_is_not_read() {
    let folder = Folder::new("in use");
    let data = folder.0.join("data").display().to_string();
    let words = ["serve", "--port", "0", "--log", "sync", "--save", "", "--data", &data];
    let server = Server::start(&mut hotring(&words));
    assert_eq!(say(&mut server.connect(), "SET key value"), "+OK");
    let checked = output(&mut hotring(&["check", &data]));
    assert!(stderr(&checked).contains("is in use"), "{}", stderr(&checked));
    end(server);
}

/// Regression test: an unusable snapshot kept all data from being copied, though the log behind it
/// was intact: `check --repair` said "it is too short"; and with the file removed it copied
/// nothing.
#[test]
fn a_log_is_saved_even_if_its_snapshot_is_damaged() {
    let folder = Folder::new("cut snapshot");
    let data = folder.0.join("data").display().to_string();
    let words = ["serve", "--port", "0", "--log", "sync", "--save", "", "--data"];
    let server = Server::start(hotring(&words).arg(&data));
    let mut stream = server.connect();
    assert_eq!(say(&mut stream, "SET before value"), "+OK");
    assert_eq!(say(&mut stream, "SAVE"), "+OK");
    assert_eq!(say(&mut stream, "SET behind value"), "+OK");
    end(server);
    let names = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path());
    let is_snapshot = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "hrs");
    let snapshot = names.into_iter().find(is_snapshot).unwrap();
    let bytes = fs::read(&snapshot).unwrap();
    for len in [Some(80), Some(64), Some(40), Some(0), None] {
        match len {
            Some(len) => fs::write(&snapshot, &bytes[..len]).unwrap(),
            None => fs::remove_file(&snapshot).unwrap(),
        }
        let new = folder.0.join("new").display().to_string();
        let repaired = output(&mut hotring(&["check", &data, "--repair", &new]));
        let said = String::from_utf8_lossy(&repaired.stdout).into_owned() + &stderr(&repaired);
        assert_eq!(repaired.status.code(), Some(1), "{len:?}: {said}");
        assert!(said.contains("copied 1 record "), "{len:?}: {said}");
        let server = Server::start(hotring(&words).arg(&new));
        let mut stream = server.connect();
        let asked = std::time::Instant::now();
        while say(&mut stream, "EXISTS before behind").starts_with("-LOADING") {
            assert!(asked.elapsed().as_secs() < 10, "{len:?}: it loads for ever");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(say(&mut stream, "EXISTS before behind"), ":1", "{len:?}");
        assert_eq!(say(&mut stream, "EXISTS behind"), ":1", "{len:?}");
        end(server);
        fs::remove_dir_all(&new).unwrap();
    }
}

/// Regression test: with the newest files of its log gone, a server started as if they had been
/// empty.
#[test]
fn a_log_that_misses_a_file_is_refused() {
    let folder = Folder::new("missing");
    let data = folder.0.join("data").display().to_string();
    ended(&data);
    let name = "log-00000000000000000001.hrl";
    fs::remove_file(Path::new(&data).join(name)).unwrap();
    let words = ["serve", "--port", "0", "--log", "sync", "--save", "", "--data", &data];
    let refused = output(&mut hotring(&words));
    assert!(!refused.status.success());
    let checked = output(&mut hotring(&["check", &data]));
    assert_eq!(checked.status.code(), Some(1));
    for said in [stderr(&refused), String::from_utf8(checked.stdout).unwrap()] {
        for part in [name, "is missing", "hotring check ", " --repair NEWDIR"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
