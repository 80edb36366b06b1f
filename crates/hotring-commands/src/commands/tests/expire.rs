//! EXPIRE and its variants, TTL and its variants, PERSIST: every option and every error.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn times_to_live() {
    play(
        "
        TTL k                   -> :-2¶
        PTTL k                  -> :-2¶
        EXPIRETIME k            -> :-2¶
        PEXPIRETIME k           -> :-2¶
        PERSIST k               -> :0¶
        EXPIRE k 10             -> :0¶
        SET k v                 -> +OK¶
        TTL k                   -> :-1¶
        PTTL k                  -> :-1¶
        EXPIRETIME k            -> :-1¶
        PEXPIRETIME k           -> :-1¶
        PERSIST k               -> :0¶
        EXPIRE k 10             -> :1¶
        TTL k                   -> :10¶
        EXPIRETIME k            -> :1700000010¶
        PEXPIRETIME k           -> :1700000010000¶
        + 499
        TTL k                   -> :10¶
        + 2
        TTL k                   -> :9¶
        PTTL k                  -> :9499¶
        PERSIST k               -> :1¶
        TTL k                   -> :-1¶
        PEXPIRE k 1500          -> :1¶
        EXPIRETIME k            -> :1700000002¶
        EXPIREAT k 1700000100   -> :1¶
        PEXPIRETIME k           -> :1700000100000¶
        PEXPIREAT k 1700000100001 -> :1¶
        PTTL k                  -> :99500¶
        + 99499
        PTTL k                  -> :1¶
        GET k                   -> $1¶v¶
        + 1
        PTTL k                  -> :-2¶
        GET k                   -> $-1¶ | _¶
        ",
    );
}

#[test]
fn conditions() {
    play(
        "
        SET k v                 -> +OK¶
        EXPIRE k 100 XX         -> :0¶
        EXPIRE k 100 GT         -> :0¶
        EXPIRE k 100 XX GT      -> :0¶
        EXPIRE k 100 XX LT      -> :0¶
        TTL k                   -> :-1¶
        EXPIRE k 100 LT         -> :1¶
        EXPIRE k 200 NX         -> :0¶
        EXPIRE k 100 GT         -> :0¶
        EXPIRE k 100 LT         -> :0¶
        EXPIRE k 200 gt         -> :1¶
        EXPIRE k 50 xx lt       -> :1¶
        EXPIRE k 60 xx          -> :1¶
        EXPIRE k 70 XX GT GT    -> :1¶
        TTL k                   -> :70¶
        PERSIST k               -> :1¶
        EXPIRE k 80 NX NX       -> :1¶
        PEXPIRE k 80001 GT      -> :1¶
        EXPIREAT k 1700000081 LT -> :0¶
        PEXPIREAT k 1700000080002 GT -> :1¶
        PTTL k                  -> :80002¶
        ",
    );
}

#[test]
fn moments_that_have_passed_delete() {
    for request in [
        "EXPIRE k 0",
        "EXPIRE k -1",
        "PEXPIRE k 0",
        "PEXPIRE k -5",
        "EXPIREAT k 1",
        "EXPIREAT k 0",
        "EXPIREAT k -1",
        "PEXPIREAT k 1700000000000",
        "PEXPIREAT k -9223372036854775808",
        "EXPIRE k -1 NX",
        "EXPIREAT k 1 LT",
    ] {
        play(&format!(
            "
            SET k v             -> +OK¶
            {request}           -> :1¶
            EXISTS k            -> :0¶
            {request}           -> :0¶
            "
        ));
    }
    play(
        "
        SET k v                 -> +OK¶
        EXPIRE k -1 XX          -> :0¶
        EXPIRE k -1 GT          -> :0¶
        EXISTS k                -> :1¶
        EXPIRE k 10             -> :1¶
        EXPIRE k -1 XX LT       -> :1¶
        EXISTS k                -> :0¶
        ",
    );
}

#[test]
fn errors() {
    play(
        "
        SET k v                 -> +OK¶
        EXPIRE k x              -> -ERR value is not an integer or out of range¶
        EXPIRE k 1.5            -> -ERR value is not an integer or out of range¶
        EXPIRE k 9223372036854775808  -> -ERR value is not an integer or out of range¶
        EXPIRE k 9223372036854775807  -> -ERR invalid expire time in 'expire' command¶
        EXPIRE k 9223372036854775     -> -ERR invalid expire time in 'expire' command¶
        EXPIRE k -9223372036854776    -> -ERR invalid expire time in 'expire' command¶
        PEXPIRE k 9223372036854775807 -> -ERR invalid expire time in 'pexpire' command¶
        EXPIREAT k 9223372036854776   -> -ERR invalid expire time in 'expireat' command¶
        PEXPIREAT k x           -> -ERR value is not an integer or out of range¶
        EXPIRE missing 9223372036854775807 -> -ERR invalid expire time in 'expire' command¶
        EXPIRE k 10 QQ          -> -ERR Unsupported option QQ¶
        EXPIRE k x QQ           -> -ERR Unsupported option QQ¶
        EXPIRE k 10 NX XX       -> -ERR NX and XX, GT or LT options at the same time are not compatible¶
        EXPIRE k 10 GT NX       -> -ERR NX and XX, GT or LT options at the same time are not compatible¶
        EXPIRE k 10 NX LT GT    -> -ERR NX and XX, GT or LT options at the same time are not compatible¶
        EXPIRE k 10 GT LT       -> -ERR GT and LT options at the same time are not compatible¶
        EXPIRE k 10 XX GT LT    -> -ERR GT and LT options at the same time are not compatible¶
        EXPIRE k                -> -ERR wrong number of arguments for 'expire' command¶
        TTL                     -> -ERR wrong number of arguments for 'ttl' command¶
        PTTL k k                -> -ERR wrong number of arguments for 'pttl' command¶
        EXPIRETIME              -> -ERR wrong number of arguments for 'expiretime' command¶
        PEXPIRETIME             -> -ERR wrong number of arguments for 'pexpiretime' command¶
        PERSIST                 -> -ERR wrong number of arguments for 'persist' command¶
        TTL k                   -> :-1¶
        ",
    );
}

#[test]
fn an_option_of_a_client_does_not_split_the_error() {
    play(
        r#"
        EXPIRE k 10 "\r\n+OK"   -> -ERR Unsupported option   +OK¶
        "#,
    );
}

#[test]
fn conditions_never_keep_others_out() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("SET k v EX 100");
    assert_eq!(dialogue.say("EXPIRE k 50 XX LT"), ":1¶");
    let info = dialogue.say("INFO index");
    assert!(info.contains("¶store_exclusions:0¶"), "{info}");
}
