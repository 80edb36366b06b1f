//! What a replica of a cluster answers, and when it has the keys of a slot.

use hotring_cluster::Epoch;
use hotring_protocol::Version;

use super::cluster::{node_of, publish};
use crate::exec::dialogue::play_to;
use crate::state::cluster::tests::tenure;

#[test]
fn a_replica_answers_only_reads_of_its_shard_and_only_after_readonly() {
    let here = "-MOVED 3300 10.0.0.1:7001¶";
    let table = "
        GET b                   -> HERE
        EVAL 'redis.pcall([[READONLY]]) return 1' 0 -> :1¶
        GET b                   -> HERE
        READONLY                -> +OK¶
        GET b                   -> $-1¶ | _¶
        MGET b {b}x             -> *2¶$-1¶$-1¶ | *2¶_¶_¶
        MGET b bar              -> -CROSSSLOT Keys in request don't hash to the same slot¶
        SET b 1                 -> HERE
        GETDEL b                -> HERE
        GET c                   -> -MOVED 7365 10.0.0.3:7003¶
        MULTI                   -> +OK¶
        GET b                   -> +QUEUED¶
        EXEC                    -> *1¶$-1¶ | *1¶_¶
        MULTI                   -> +OK¶
        GET b                   -> +QUEUED¶
        SET b 1                 -> HERE
        EXEC                    -> -EXECABORT Transaction discarded because of previous errors.¶
        EVAL 'return#KEYS' 1 b  -> :1¶
        SPUBLISH b x            -> :0¶
        SPUBLISH c x            -> -MOVED 7365 10.0.0.3:7003¶
        READWRITE               -> +OK¶
        GET b                   -> HERE
        READONLY                -> +OK¶
        RESET                   -> +RESET¶
        GET b                   -> HERE
        ";
    let table = table.replace("HERE", here);
    // RESET also ends RESP3.
    play_to(|version| node_of(2, version), &table);
    let mut dialogue = node_of(2, Version::Resp2);
    assert!(dialogue.say("CLIENT INFO").contains(" flags=N "));
    assert!(dialogue.say("READONLY\r\nCLIENT LIST").contains(" flags=r "));
    assert!(dialogue.say("READWRITE\r\nCLIENT INFO").contains(" flags=N "));
    // One batch each, as READONLY ends one.
    assert_eq!(
        dialogue.say("READONLY\r\nGET b\r\nREADWRITE\r\nGET b"),
        format!("+OK¶$-1¶+OK¶{here}")
    );
}

/// Keys of slots that have just come may not be there yet, and those of slots that have gone are being removed.
#[test]
fn a_replica_answers_reads_once_it_has_the_keys_and_while_its_primary_has_them() {
    let mut dialogue = node_of(2, Version::Resp2);
    let server = dialogue.server();
    let cluster = server.cluster.as_ref().unwrap();
    let here = "-MOVED 3300 10.0.0.1:7001¶";
    assert!(cluster.hear_tenure(tenure(&[(5, "3300"), (9, "5061")]), 4).is_some());
    assert_eq!(dialogue.say("READONLY\r\nGET b"), format!("+OK¶{here}"));
    cluster.note_applied(5);
    assert_eq!(dialogue.say("GET b"), "$-1¶");
    assert_eq!(dialogue.say("GET bar"), "-MOVED 5061 10.0.0.1:7001¶");
    cluster.note_applied(8);
    assert_eq!(dialogue.say("GET bar"), "-MOVED 5061 10.0.0.1:7001¶");
    cluster.note_applied(9);
    assert_eq!(dialogue.say("GET bar"), "$-1¶");
    assert_eq!(cluster.hear_tenure(tenure(&[(5, "3300"), (9, "5061"), (10, "7")]), 10), None);
    assert!(cluster.hear_tenure(tenure(&[(9, "5061")]), 10).is_some(), "some have gone");
    assert_eq!(dialogue.say("GET b"), here);
    assert_eq!(dialogue.say("EVAL_RO 'return 1' 1 b"), here);
    assert_eq!(dialogue.say("SPUBLISH b x"), ":0¶", "messages are no data");
}

/// Which slots a primary has is the records' word, from the epoch on in which it leads.
#[test]
fn a_primary_tells_its_slots_by_records_of_its_own_epoch() {
    let dialogue = node_of(1, Version::Resp2);
    let server = dialogue.server();
    let cluster = server.cluster.as_ref().unwrap();
    let told = cluster.tenure();
    let renew = |epoch, last| {
        cluster.renew_tenure(epoch, || last);
        told.borrow().clone()
    };
    assert_eq!(renew(None, 3), tenure(&[]), "it is no primary");
    assert_eq!(renew(Some(Epoch(2)), 4), tenure(&[]), "the records are older");
    assert_eq!(renew(Some(Epoch(1)), 5), tenure(&[(5, "0-5460")]));
    publish(&dialogue, |directory| directory.owners.give(3300, 2));
    assert_eq!(renew(Some(Epoch(1)), 7), tenure(&[(5, "0-3299,3301-5460")]));
    publish(&dialogue, |_| ());
    assert_eq!(renew(Some(Epoch(1)), 9), tenure(&[(5, "0-3299,3301-5460"), (9, "3300")]));
}
