//! Checks that the server can keep a log and rewrite its configuration as an unprivileged user with the restrictions
//! of the systemd unit. systemd itself is not needed: a mount namespace stands in for `ProtectSystem=strict`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};

use super::fresh;
use crate::process::{self, command};
use crate::server::Server;
use crate::suite::Done;
use crate::workspace::{cargo, root, target};

/// Confines itself like the unit, and becomes the server. The server's arguments follow `exec`.
const SCRIPT: &str = r#"#!/bin/sh
set -e
if [ "$CONFINED" != yes ]; then
    CONFINED=yes exec unshare --mount --propagation private -- "$0" "$@"
fi
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /etc
mkdir -m 700 /var/lib/STATE
mkdir -m 2770 /etc/hotring
cp ROOT/docs/hotring.toml /etc/hotring/hotring.toml
chmod 640 /etc/hotring/hotring.toml
chown -R 65534:65534 /var/lib/STATE /etc/hotring
for folder in /var/lib/STATE WRITABLE; do
    mount --bind "$folder" "$folder"
done
mount -o remount,ro,bind /var/lib
mount -o remount,ro,bind /etc
mount -o remount,ro,bind /
cd WORKING
exec setpriv --reuid 65534 --regid 65534 --clear-groups PROGRAM "$@"
"#;

/// Starts the confined server, and checks that it writes its log and rewrites its configuration.
pub fn check() -> Result<Done> {
    let is_root = process::output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let unshare = command("unshare").args(["--mount", "true"]).status();
    if !is_root || !unshare.is_ok_and(|status| status.success()) {
        return Ok(Done::Skipped("only root can make a mount namespace".to_string()));
    }
    process::run(cargo().args(["build", "--release", "--locked", "-p", "hotring"]))?;
    let unit = fs::read_to_string(root().join("packaging/hotring.service"))?;
    let field = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.with_context(|| format!("the unit has no {name}"))
    };
    let script = SCRIPT
        .replace("STATE", field("StateDirectory")?)
        .replace("WRITABLE", field("ReadWritePaths").unwrap_or_default())
        .replace("WORKING", field("WorkingDirectory").unwrap_or("/"))
        .replace("ROOT", &root().to_string_lossy())
        .replace("PROGRAM", &target().join("release/hotring").to_string_lossy());
    let path = fresh("confined")?.join("hotring");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    let flags = ["--config", "/etc/hotring/hotring.toml", "--log", "everysec"];
    let server = Server::start_with(&path, &flags)?;
    let port = server.port.to_string();
    for (words, expected) in [
        (&["SET", "key", "value"][..], "OK"),
        (&["CONFIG", "SET", "timeout", "9"], "OK"),
        (&["CONFIG", "REWRITE"], "OK"),
    ] {
        let answer = process::output(command("redis-cli").args(["-p", &port]).args(words))?;
        ensure!(answer.trim() == expected, "{}: {answer}", words.join(" "));
    }
    let status = server.interrupt()?;
    ensure!(status.success(), "it ends with {status}");
    println!("  as the unit confines it, the server keeps a log and rewrites its configuration");
    Ok(Done::Passed(2))
}
