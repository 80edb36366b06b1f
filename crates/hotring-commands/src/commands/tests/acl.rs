//! The commands about users, as a client sees them.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};
use crate::state::client::Closing;

#[test]
fn a_user_may_do_exactly_what_its_rules_allow() {
    play(
        r#"
        ACL WHOAMI                  -> $7¶default¶
        ACL SETUSER u on >pw ~a* &c* +@all -@dangerous  -> +OK¶
        AUTH u nonsense             -> -WRONGPASS invalid username-password pair or user is disabled.¶
        ACL WHOAMI                  -> $7¶default¶
        AUTH u pw                   -> +OK¶
        ACL WHOAMI                  -> $1¶u¶
        SET a1 x                    -> +OK¶
        SET b1 x                    -> -NOPERM No permissions to access a key¶
        MGET a1 b1                  -> -NOPERM No permissions to access a key¶
        FLUSHALL                    -> -NOPERM User u has no permissions to run the 'flushall' command¶
        CONFIG GET port             -> -NOPERM User u has no permissions to run the 'config|get' command¶
        ACL SETUSER u allkeys       -> -NOPERM User u has no permissions to run the 'acl|setuser' command¶
        PUBLISH c1 x                -> :0¶
        PUBLISH d1 x                -> -NOPERM No permissions to access a channel¶
        PSUBSCRIBE *                -> -NOPERM No permissions to access a channel¶
        NONSENSE x                  -> -ERR unknown command 'NONSENSE', with args beginning with: 'x' ¶
        GET                         -> -ERR wrong number of arguments for 'get' command¶
        AUTH default anything       -> +OK¶
        FLUSHALL                    -> +OK¶
        "#,
    );
}

#[test]
fn a_transaction_does_not_bypass_permissions() {
    play(
        r#"
        ACL SETUSER u on nopass ~a* +@all -incr     -> +OK¶
        AUTH u x                    -> +OK¶
        MULTI                       -> +OK¶
        SET a x                     -> +QUEUED¶
        SET b x                     -> -NOPERM No permissions to access a key¶
        EXEC                        -> -EXECABORT Transaction discarded because of previous errors.¶
        EXISTS a                    -> :0¶
        WATCH b                     -> -NOPERM No permissions to access a key¶
        MULTI                       -> +OK¶
        SET a 1                     -> +QUEUED¶
        ACL SETUSER u -set -exec    -> +QUEUED¶
        SET a 2                     -> +QUEUED¶
        AUTH default x              -> +QUEUED¶
        INCR a                      -> -NOPERM User u has no permissions to run the 'incr' command¶
        DISCARD                     -> +OK¶
        MULTI                       -> +OK¶
        SET a 1                     -> +QUEUED¶
        ACL SETUSER u -set ~nowhere resetkeys -> +QUEUED¶
        SET a 2                     -> +QUEUED¶
        GET a                       -> +QUEUED¶
        AUTH default x              -> +QUEUED¶
        SET b 3                     -> -NOPERM No permissions to access a key¶
        DISCARD                     -> +OK¶
        MULTI                       -> +OK¶
        SET a 1                     -> +QUEUED¶
        ACL SETUSER u -set resetkeys -> +QUEUED¶
        SET a 2                     -> +QUEUED¶
        GET a                       -> +QUEUED¶
        AUTH default x              -> +QUEUED¶
        GET a                       -> +QUEUED¶
        EXEC                        -> *6¶+OK¶+OK¶-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to execute the command or subcommand¶-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: no permission to touch the specified keys¶+OK¶$1¶1¶
        ACL SETUSER u +@all allkeys -exec -> +OK¶
        AUTH u x                    -> +OK¶
        MULTI                       -> +OK¶
        SET a 5                     -> +QUEUED¶
        EXEC                        -> -EXECABORT Transaction discarded because of: NOPERM User u has no permissions to run the 'exec' command¶
        GET a                       -> $1¶1¶
        "#,
    );
}

/// It once kept the rights that it had for the rest of its transaction.
#[test]
fn a_user_that_removes_itself_loses_its_permissions() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("ACL SETUSER u on nopass ~* +@all");
    dialogue.say("CONFIG SET requirepass secret");
    let lines = "AUTH u x\r\nMULTI\r\nSET k 1\r\nACL DELUSER u\r\nSET k 2\r\nACL WHOAMI\r\nEXEC";
    let replies = dialogue.say(lines);
    let refused = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
                   EXEC call. This command is no longer allowed for the following reason: authentication \
                   is required¶";
    assert!(replies.ends_with(&format!("¶*4¶+OK¶:1¶{refused}{refused}")), "{replies}");
    assert_eq!(dialogue.closing(), Some(Closing::Killed));
    let value = dialogue.server().store.session().get(b"k", 0, |value| format!("{value:?}"));
    assert!(format!("{value:?}").contains('1'), "{value:?}");
}

/// All passwords of a transaction were tried before the first was answered.
#[test]
fn a_transaction_tries_no_password_behind_a_wrong_one() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("ACL SETUSER u on >pw +@all");
    let lines = "MULTI\r\nAUTH u wrong\r\nAUTH u pw\r\nHELLO 2 AUTH u pw\r\nACL WHOAMI\r\nEXEC";
    let untried = "-ERR a wrong password was given just before: this one is not tried¶";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.¶";
    let expected = format!("¶*4¶{wrong}{untried}{untried}$7¶default¶");
    let replies = dialogue.say(lines);
    assert!(replies.ends_with(&expected), "{replies}");
    assert_eq!(dialogue.say("AUTH u pw"), "+OK¶");
}

#[test]
fn without_the_password_there_is_little_to_do() {
    play(
        r#"
        SET k v                     -> +OK¶
        AUTH x                      -> -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?¶
        AUTH default x              -> +OK¶
        AUTH a b c                  -> -ERR syntax error¶
        CONFIG SET requirepass secret -> +OK¶
        GET k                       -> $1¶v¶
        RESET                       -> +RESET¶
        GET k                       -> -NOAUTH Authentication required.¶
        MULTI                       -> -NOAUTH Authentication required.¶
        SUBSCRIBE c                 -> -NOAUTH Authentication required.¶
        PING                        -> -NOAUTH Authentication required.¶
        HELLO 2                     -> -NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time¶
        HELLO 2 AUTH default nonsense -> -WRONGPASS invalid username-password pair or user is disabled.¶
        NONSENSE                    -> -ERR unknown command 'NONSENSE', with args beginning with: ¶
        AUTH nonsense               -> -WRONGPASS invalid username-password pair or user is disabled.¶
        AUTH nobody secret          -> -WRONGPASS invalid username-password pair or user is disabled.¶
        GET k                       -> -NOAUTH Authentication required.¶
        AUTH secret                 -> +OK¶
        GET k                       -> $1¶v¶
        CONFIG GET requirepass      -> *2¶$11¶requirepass¶$6¶secret¶
        CONFIG SET requirepass ''   -> +OK¶
        RESET                       -> +RESET¶
        GET k                       -> $1¶v¶
        QUIT                        -> +OK¶
        "#,
    );
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("CONFIG SET requirepass secret");
    dialogue.say("RESET");
    assert!(dialogue.say("HELLO 3 AUTH default secret SETNAME me").starts_with("%7¶"));
    assert_eq!(dialogue.say("CLIENT GETNAME"), "$2¶me¶");
    assert!(dialogue.say("CLIENT INFO").contains(" user=default "));
}

#[test]
fn an_unauthenticated_client_may_send_little() {
    for (request, error) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*2\r\n$3\r\nGET\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let mut dialogue = Dialogue::new(Version::Resp2);
        dialogue.say("CONFIG SET requirepass secret");
        // One request, so that the command behind RESET meets the new limits though it came with it.
        let reply = dialogue.ask(format!("RESET\r\n{request}").as_bytes());
        let expected = format!("+RESET\r\n-ERR Protocol error: {error}\r\n");
        assert_eq!(String::from_utf8(reply).unwrap(), expected);
        assert_eq!(dialogue.closing(), Some(Closing::Protocol));
    }
}

#[test]
fn requests_after_a_change_of_users_see_the_change() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let batch = "SET k v\r\nGET k\r\nACL SETUSER default -get\r\nGET k\r\nACL SETUSER default +get\r\nGET k\r\n";
    let replies = String::from_utf8(dialogue.ask(batch.as_bytes())).unwrap();
    assert_eq!(
        replies,
        "+OK\r\n$1\r\nv\r\n+OK\r\n\
         -NOPERM User default has no permissions to run the 'get' command\r\n+OK\r\n$1\r\nv\r\n"
    );
    let batch = "ACL SETUSER u on nopass +acl|whoami\r\nAUTH u x\r\nGET k\r\nACL WHOAMI\r\nAUTH default x\r\nGET k\r\n";
    let replies = String::from_utf8(dialogue.ask(batch.as_bytes())).unwrap();
    assert_eq!(
        replies,
        "+OK\r\n+OK\r\n-NOPERM User u has no permissions to run the 'get' command\r\n$1\r\nu\r\n+OK\r\n$1\r\nv\r\n"
    );
}

#[test]
fn users_are_listed_and_shown() {
    play(
        r#"
        ACL SETUSER bob             -> +OK¶
        ACL SETUSER alice on >pw %R~a* ~b &c +get (~d +set)  -> +OK¶
        ACL USERS                   -> *3¶$5¶alice¶$3¶bob¶$7¶default¶
        ACL LIST                    -> *3¶$163¶user alice on sanitize-payload #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 %R~a* ~b resetchannels &c -@all +get (~d resetchannels -@all +set)¶$49¶user bob off sanitize-payload resetchannels -@all¶$51¶user default on nopass sanitize-payload ~* &* +@all¶
        ACL GETUSER alice           -> *12¶$5¶flags¶*2¶$2¶on¶$16¶sanitize-payload¶$9¶passwords¶*1¶$64¶30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4¶$8¶commands¶$10¶-@all +get¶$4¶keys¶$8¶%R~a* ~b¶$8¶channels¶$2¶&c¶$9¶selectors¶*1¶*6¶$8¶commands¶$10¶-@all +set¶$4¶keys¶$2¶~d¶$8¶channels¶$0¶¶ | %6¶$5¶flags¶~2¶$2¶on¶$16¶sanitize-payload¶$9¶passwords¶*1¶$64¶30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4¶$8¶commands¶$10¶-@all +get¶$4¶keys¶$8¶%R~a* ~b¶$8¶channels¶$2¶&c¶$9¶selectors¶*1¶%3¶$8¶commands¶$10¶-@all +set¶$4¶keys¶$2¶~d¶$8¶channels¶$0¶¶
        ACL GETUSER nobody          -> $-1¶ | _¶
        ACL DELUSER bob nobody      -> :1¶
        ACL DELUSER default         -> -ERR The 'default' user cannot be removed¶
        ACL USERS                   -> *2¶$5¶alice¶$7¶default¶
        ACL SETUSER alice reset     -> +OK¶
        ACL LIST                    -> *2¶$51¶user alice off sanitize-payload resetchannels -@all¶$51¶user default on nopass sanitize-payload ~* &* +@all¶
        ACL DRYRUN default GET k    -> +OK¶
        ACL DRYRUN alice GET k      -> $54¶User alice has no permissions to run the 'get' command¶
        "#,
    );
}

#[test]
fn mistakes() {
    play(
        r#"
        ACL SETUSER                 -> -ERR wrong number of arguments for 'acl|setuser' command¶
        ACL SETUSER ''              -> -ERR Usernames can't be empty¶
        ACL SETUSER "a b"           -> -ERR Usernames can't contain spaces or null characters¶
        ACL SETUSER u +nonsense     -> -ERR Error in ACL SETUSER modifier '+nonsense': Unknown command or category name in ACL¶
        ACL GETUSER u               -> $-1¶ | _¶
        ACL LOAD                    -> -ERR This Redis instance is not configured to use an ACL file. Start the server with the setting aclfile, or make users by ACL SETUSER.¶
        ACL SAVE                    -> -ERR This Redis instance is not configured to use an ACL file. Start the server with the setting aclfile, or make users by ACL SETUSER.¶
        ACL CAT nonsense            -> -ERR Unknown category 'nonsense'¶
        ACL CAT a b                 -> -ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.¶
        ACL GENPASS 0               -> -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096¶
        ACL GENPASS 4097            -> -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096¶
        ACL GENPASS x               -> -ERR value is not an integer or out of range¶
        ACL LOG x                   -> -ERR value is not an integer or out of range¶
        ACL LOG -1                  -> *0¶
        ACL LOG 1 2                 -> -ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.¶
        ACL DRYRUN nobody GET k     -> -ERR User 'nobody' not found¶
        ACL DRYRUN default NONSENSE -> -ERR Command 'NONSENSE' not found¶
        ACL DRYRUN default CONFIG x -> -ERR Command 'CONFIG' not found¶
        ACL DRYRUN default GET      -> -ERR wrong number of arguments for 'get' command¶
        ACL NONSENSE                -> -ERR unknown subcommand 'NONSENSE'. Try ACL HELP.¶
        CLIENT KILL USER nobody     -> -ERR No such user 'nobody'¶
        "#,
    );
}

#[test]
fn categories_and_passwords() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let categories = dialogue.say("ACL CAT");
    for name in ["keyspace", "read", "sortedset", "dangerous", "scripting"] {
        assert!(categories.contains(&format!("¶{name}¶")), "{categories}");
    }
    let commands = dialogue.say("ACL CAT Dangerous");
    assert!(commands.contains("¶acl|setuser¶") && commands.contains("¶flushall¶"), "{commands}");
    assert!(!commands.contains("¶get¶"));
    assert_eq!(dialogue.say("ACL CAT stream"), "*0¶");
    assert_eq!(dialogue.say("ACL CAT hyperloglog"), "*3¶$5¶pfadd¶$7¶pfcount¶$7¶pfmerge¶");
    let first = dialogue.say("ACL GENPASS");
    assert!(first.starts_with("$64¶") && first != dialogue.say("ACL GENPASS"), "{first}");
    for (bits, digits) in [(1, 1), (4, 1), (5, 2), (12, 3), (4096, 1024)] {
        assert!(dialogue.say(&format!("ACL GENPASS {bits}")).starts_with(&format!("${digits}¶")));
    }
    assert!(dialogue.say("ACL HELP").contains("SETUSER username [rule [rule ...]]"));
}

#[test]
fn denials_are_logged_without_secrets() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("CONFIG SET slowlog-log-slower-than 0");
    dialogue.say("ACL SETUSER u on >secret1 ~a +@all -@dangerous");
    dialogue.say("AUTH u secret2");
    dialogue.say("AUTH u secret1");
    for request in ["GET b", "GET b", "FLUSHALL", "PUBLISH c x", "MULTI", "GET b", "DISCARD"] {
        dialogue.say(request);
    }
    dialogue.say("AUTH default x");
    dialogue.say("CONFIG SET RequirePass secret3");
    dialogue.say("CONFIG SET requirepass ''");
    let log = dialogue.say("ACL LOG");
    let of = |reason: &str, context: &str, object: &str| {
        format!(
            "¶$6¶reason¶${}¶{reason}¶$7¶context¶${}¶{context}¶$6¶object¶${}¶{object}¶$8¶username¶$1¶u¶",
            reason.len(),
            context.len(),
            object.len()
        )
    };
    let entries = [
        (1, of("key", "multi", "b")),
        (1, of("channel", "toplevel", "c")),
        (1, of("command", "toplevel", "flushall")),
        (2, of("key", "toplevel", "b")),
        (1, of("auth", "toplevel", "AUTH")),
    ];
    assert!(log.starts_with("*5¶"), "{log}");
    let mut at = 0;
    for (count, entry) in entries {
        let found = log.find(&format!("¶$5¶count¶:{count}{entry}")).expect(&entry);
        assert!(found >= at, "the latest first");
        at = found;
    }
    assert!(log.contains("¶$11¶client-info¶") && log.contains(" user=u "), "{log}");
    let slow = dialogue.say("SLOWLOG GET -1");
    for shown in [&log, &slow] {
        assert!(!shown.contains("secret"), "{shown}");
    }
    let stats = dialogue.say("INFO stats");
    assert!(stats.contains("acl_access_denied_auth:1¶acl_access_denied_cmd:1¶acl_access_denied_key:3¶acl_access_denied_channel:1¶"), "{stats}");
    assert!(dialogue.say("ACL LOG 1").starts_with("*1¶"));
    dialogue.say("CONFIG SET acllog-max-len 0");
    assert_eq!(dialogue.say("ACL LOG RESET"), "+OK¶");
    dialogue.say("AUTH u x");
    assert_eq!(dialogue.say("ACL LOG"), "*0¶");
}
