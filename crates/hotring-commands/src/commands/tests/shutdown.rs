//! SHUTDOWN: its options, and a handover before the end, which the server's tasks carry out.

use hotring_protocol::Version;

use crate::exec::dialogue::Dialogue;
use crate::state::client::Closing;
use crate::state::cluster::tests::{node, three_shards};

/// The primary of shard 1.
fn primary() -> Dialogue {
    Dialogue::of_node(Version::Resp2, node(1), three_shards())
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for words in ["SAVE NOSAVE", "ABORT NOW", "NOW ABORT", "ABORT ABORT", "LATER"] {
        assert_eq!(dialogue.say(&format!("SHUTDOWN {words}")), "-ERR syntax error¶", "{words}");
    }
    assert_eq!(dialogue.say("SHUTDOWN ABORT"), "-ERR No shutdown in progress.¶");
    assert_eq!(dialogue.say("SHUTDOWN NOSAVE FORCE NOW"), "");
    assert_eq!(dialogue.closing(), Some(Closing::Killed));
    assert!(dialogue.server().process.is_stopping());
}

/// Without a log there is no snapshot; FORCE ends the server nevertheless.
#[test]
fn force_ends_a_server_that_cannot_save() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let failed = "-ERR Errors trying to SHUTDOWN. Check logs.¶";
    assert_eq!(dialogue.say("SHUTDOWN SAVE"), failed);
    assert!(!dialogue.server().process.is_stopping());
    assert_eq!(dialogue.say("SHUTDOWN SAVE FORCE"), "");
    assert!(dialogue.server().process.is_stopping());
}

#[test]
fn a_primary_of_a_cluster_retires_first_and_abort_cancels_that() {
    let mut dialogue = primary();
    let mut other = dialogue.with_version(Version::Resp2);
    assert_eq!(dialogue.say("SHUTDOWN"), "");
    let server = dialogue.server();
    assert!(server.process.is_retiring() && !server.process.is_stopping());
    assert_eq!((dialogue.ended_wait(), dialogue.closing()), (String::new(), None));
    assert_eq!(other.say("SET b 1"), "+OK¶", "it serves meanwhile");
    assert_eq!(other.say("SHUTDOWN ABORT"), "+OK¶");
    assert_eq!(other.say("SHUTDOWN ABORT"), "-ERR No shutdown in progress.¶");
    assert_eq!(dialogue.ended_wait(), "-ERR Errors trying to SHUTDOWN. Check logs.¶");
    assert_eq!(dialogue.say("SHUTDOWN"), "");
    server.stop();
    assert_eq!(dialogue.ended_wait(), "");
    assert_eq!(dialogue.closing(), Some(Closing::Killed));
}

#[test]
fn now_ends_a_primary_of_a_cluster_at_once() {
    let mut dialogue = primary();
    assert_eq!(dialogue.say("SHUTDOWN NOW"), "");
    assert!(dialogue.server().process.is_stopping());
}
