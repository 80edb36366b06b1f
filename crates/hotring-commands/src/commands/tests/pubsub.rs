//! The commands of pub/sub, for a client that also gets its own messages.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};
use crate::state::pubsub::Counts;

/// No subscribers.
const NONE: Counts = Counts { channels: 0, patterns: 0, shards: 0 };

#[test]
fn subscriptions_are_confirmed_one_by_one() {
    play(
        r#"
        SUBSCRIBE a b a   -> *3¶$9¶subscribe¶$1¶a¶:1¶*3¶$9¶subscribe¶$1¶b¶:2¶*3¶$9¶subscribe¶$1¶a¶:2¶ | >3¶$9¶subscribe¶$1¶a¶:1¶>3¶$9¶subscribe¶$1¶b¶:2¶>3¶$9¶subscribe¶$1¶a¶:2¶
        PSUBSCRIBE x*     -> *3¶$10¶psubscribe¶$2¶x*¶:3¶ | >3¶$10¶psubscribe¶$2¶x*¶:3¶
        PING              -> *2¶$4¶pong¶$0¶¶ | +PONG¶
        PING hi           -> *2¶$4¶pong¶$2¶hi¶ | $2¶hi¶
        UNSUBSCRIBE b     -> *3¶$11¶unsubscribe¶$1¶b¶:2¶ | >3¶$11¶unsubscribe¶$1¶b¶:2¶
        UNSUBSCRIBE none  -> *3¶$11¶unsubscribe¶$4¶none¶:2¶ | >3¶$11¶unsubscribe¶$4¶none¶:2¶
        UNSUBSCRIBE       -> *3¶$11¶unsubscribe¶$1¶a¶:1¶ | >3¶$11¶unsubscribe¶$1¶a¶:1¶
        PUNSUBSCRIBE      -> *3¶$12¶punsubscribe¶$2¶x*¶:0¶ | >3¶$12¶punsubscribe¶$2¶x*¶:0¶
        UNSUBSCRIBE       -> *3¶$11¶unsubscribe¶$-1¶:0¶ | >3¶$11¶unsubscribe¶_¶:0¶
        PUNSUBSCRIBE      -> *3¶$12¶punsubscribe¶$-1¶:0¶ | >3¶$12¶punsubscribe¶_¶:0¶
        PUNSUBSCRIBE x y  -> *3¶$12¶punsubscribe¶$1¶x¶:0¶*3¶$12¶punsubscribe¶$1¶y¶:0¶ | >3¶$12¶punsubscribe¶$1¶x¶:0¶>3¶$12¶punsubscribe¶$1¶y¶:0¶
        GET a             -> $-1¶ | _¶
        "#,
    );
}

/// Once, no limit counted the memory of a million channel names.
#[test]
fn names_count_as_memory_of_their_connection() {
    for (begin, keyword, end) in [
        ("SUBSCRIBE", "", "UNSUBSCRIBE"),
        ("PSUBSCRIBE", "", "PUNSUBSCRIBE"),
        ("SSUBSCRIBE", "", "SUNSUBSCRIBE"),
        ("SSUBSCRIBE", "", "RESET"),
        ("WATCH", "", "UNWATCH"),
        ("CLIENT TRACKING ON BCAST", "PREFIX ", "CLIENT TRACKING OFF"),
        ("SUBSCRIBE", "", "RESET"),
        ("WATCH", "", "MULTI\r\nEXEC"),
    ] {
        let mut dialogue = Dialogue::new(Version::Resp3);
        let server = dialogue.server();
        let before = server.clients.buffers_memory();
        let name = |i| format!(" {keyword}{i:03}{}", "n".repeat(997));
        dialogue.say(&format!("{begin}{}", (0..50).map(name).collect::<String>()));
        let names = server.clients.buffers_memory() - before;
        assert!((50_000..150_000).contains(&names), "{begin}: {names}");
        assert!(dialogue.say("CLIENT INFO").contains("tot-mem="));
        dialogue.say(end);
        assert_eq!(server.clients.buffers_memory(), before, "{end}");
    }
}

#[test]
fn a_resp2_subscriber_may_run_few_commands() {
    let refused = |name: &str| {
        format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context¶"
        )
    };
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(
        dialogue.say("SUBSCRIBE a\r\nGET a"),
        format!("*3¶$9¶subscribe¶$1¶a¶:1¶{}", refused("get"))
    );
    assert_eq!(dialogue.say("CLIENT INFO"), refused("client|info"));
    assert_eq!(dialogue.say("MULTI"), refused("multi"));
    assert_eq!(dialogue.say("HELLO 3"), refused("hello"));
    assert!(dialogue.say("NONSENSE").starts_with("-ERR unknown command"));
    assert_eq!(
        dialogue.say("SUBSCRIBE"),
        "-ERR wrong number of arguments for 'subscribe' command¶"
    );
    assert_eq!(dialogue.say("RESET\r\nGET a"), "+RESET¶$-1¶");
    assert_eq!(dialogue.server().push.pubsub.counts(), NONE);
    let transaction = "MULTI\r\nPSUBSCRIBE a\r\nPING\r\nEXEC\r\nGET a\r\nPUNSUBSCRIBE\r\nGET a";
    let end = "*3¶$12¶punsubscribe¶$1¶a¶:0¶$-1¶";
    assert_eq!(
        dialogue.say(transaction),
        format!(
            "+OK¶+QUEUED¶+QUEUED¶*2¶*3¶$10¶psubscribe¶$1¶a¶:1¶*2¶$4¶pong¶$0¶¶{}{end}",
            refused("get")
        )
    );
}

#[test]
fn own_messages_come_between_the_replies_in_their_order() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    let line = "SUBSCRIBE a\r\nPSUBSCRIBE a* none\r\nPUBLISH a hi\r\nGET k\r\nUNSUBSCRIBE\r\nPUBLISH a x\r\nPUBLISH b x";
    assert_eq!(
        dialogue.say(line),
        ">3¶$9¶subscribe¶$1¶a¶:1¶>3¶$10¶psubscribe¶$2¶a*¶:2¶>3¶$10¶psubscribe¶$4¶none¶:3¶:2¶\
         >3¶$7¶message¶$1¶a¶$2¶hi¶>4¶$8¶pmessage¶$2¶a*¶$1¶a¶$2¶hi¶_¶>3¶$11¶unsubscribe¶$1¶a¶:2¶\
         :1¶>4¶$8¶pmessage¶$2¶a*¶$1¶a¶$1¶x¶:0¶"
    );
    assert_eq!(
        dialogue.say("MULTI\r\nPUBLISH a 1\r\nPUBLISH a 2\r\nEXEC"),
        "+OK¶+QUEUED¶+QUEUED¶*2¶:1¶:1¶>4¶$8¶pmessage¶$2¶a*¶$1¶a¶$1¶1¶>4¶$8¶pmessage¶$2¶a*¶$1¶a¶$1¶2¶"
    );
}

/// Once, a message that arrived during UNSUBSCRIBE followed its reply.
#[test]
fn no_message_follows_the_end_of_a_subscription() {
    let message = ">3¶$7¶message¶$1¶a¶$1¶x¶";
    let end = ">3¶$11¶unsubscribe¶$1¶a¶:";
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("SUBSCRIBE a\r\nSUBSCRIBE b");
    assert_eq!(
        dialogue.say("MULTI\r\nPUBLISH a x\r\nUNSUBSCRIBE a a\r\nEXEC"),
        format!("+OK¶+QUEUED¶+QUEUED¶{message}*2¶:1¶{end}1¶{end}1¶")
    );
    // No message is written in the old version of the protocol or between other replies, either.
    dialogue.say("SUBSCRIBE a");
    let reply = dialogue.say("MULTI\r\nPUBLISH a x\r\nHELLO 2\r\nPING\r\nEXEC");
    assert!(
        reply.starts_with(&format!("+OK¶+QUEUED¶+QUEUED¶+QUEUED¶{message}*3¶:1¶*14¶")),
        "{reply}"
    );
    assert!(reply.ends_with("*2¶$4¶pong¶$0¶¶"), "{reply}");
    assert_eq!(dialogue.say("RESET"), "+RESET¶");
    // A message before the reply to SUBSCRIBE would be taken for a reply.
    let resp2 = |text: &str| text.replace('>', "*");
    assert_eq!(
        dialogue.say("MULTI\r\nSUBSCRIBE a\r\nPUBLISH a x\r\nUNSUBSCRIBE a\r\nEXEC"),
        format!("+OK¶+QUEUED¶+QUEUED¶+QUEUED¶*3¶*3¶$9¶subscribe¶$1¶a¶:1¶:1¶{}0¶", resp2(end))
    );
    let reply = dialogue.say("MULTI\r\nSUBSCRIBE a\r\nPUBLISH a x\r\nHELLO 3\r\nEXEC");
    assert!(reply.contains("+QUEUED¶*3¶*3¶") && !reply.contains("message"), "{reply}");
    assert_eq!(dialogue.say("RESET"), "+RESET¶");
    // CLIENT REPLY OFF does not suppress messages.
    dialogue.say("HELLO 3\r\nSUBSCRIBE a\r\nCLIENT REPLY OFF");
    assert_eq!(dialogue.say("MULTI\r\nPUBLISH a x\r\nHELLO 2\r\nEXEC"), message);
}

#[test]
fn listeners_can_be_listed() {
    play(
        r#"
        PUBSUB CHANNELS      -> *0¶
        PUBSUB NUMSUB        -> *0¶
        PUBSUB NUMSUB a b    -> *4¶$1¶a¶:0¶$1¶b¶:0¶
        PUBSUB NUMPAT        -> :0¶
        PUBSUB CHANNELS a b  -> -ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.¶
        PUBSUB foo           -> -ERR unknown subcommand 'foo'. Try PUBSUB HELP.¶
        PUBSUB               -> -ERR wrong number of arguments for 'pubsub' command¶
        PUBLISH a x          -> :0¶
        "#,
    );
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("SUBSCRIBE a\r\nPSUBSCRIBE x* y*");
    assert_eq!(dialogue.say("PUBSUB CHANNELS"), "*1¶$1¶a¶");
    assert_eq!(dialogue.say("PUBSUB CHANNELS b*"), "*0¶");
    assert_eq!(dialogue.say("PUBSUB NUMSUB a x"), "*4¶$1¶a¶:1¶$1¶x¶:0¶");
    assert_eq!(dialogue.say("PUBSUB NUMPAT"), ":2¶");
    let info = dialogue.say("CLIENT INFO");
    assert!(info.contains(" flags=P ") && info.contains(" sub=1 psub=2 "), "{info}");
    assert!(dialogue.say("INFO stats").contains("pubsub_channels:1¶pubsub_patterns:2¶"));
}

#[test]
fn subscriptions_are_limited() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    assert_eq!(dialogue.say("CONFIG SET max-subscriptions 2"), "+OK¶");
    let refused = "-ERR more than 2 subscriptions (max-subscriptions)¶";
    assert_eq!(dialogue.say("SUBSCRIBE a b c"), refused);
    assert_eq!(dialogue.server().push.pubsub.counts(), NONE);
    assert!(dialogue.say("SUBSCRIBE a b").starts_with('>'));
    assert_eq!(dialogue.say("PSUBSCRIBE c"), refused);
}
