//! What a primary does after its restart.

use hotring_log::AckWhen;
use hotring_server::Source;

use super::{Folder, info, server, wait_for};
use crate::wire::ok;

/// Replicas remove nothing by their own clocks. A primary that waited for its replicas began without removing by
/// records.
#[test]
fn what_expires_after_a_restart_is_removed_by_records() {
    let folder = Folder::new("expiry");
    let first = server(Some((&folder, AckWhen::Written)), |_| {});
    let mut p = first.connect();
    assert_eq!(p.say("SET k 1 PX 300"), ok());
    let before: u64 = info(&mut p, "master_repl_offset").parse().unwrap();
    drop(p);
    first.stop();
    let again = server(Some((&folder, AckWhen::Written)), |config| {
        config.replication.replicated = Some(true);
        config.replication.in_sync = vec![Source { host: "127.0.0.1".to_string(), port: 1 }];
    });
    let mut p = again.connect();
    wait_for("the key is over", || info(&mut p, "expired_keys") == "1");
    assert_eq!(info(&mut p, "master_repl_offset"), (before + 1).to_string());
}
