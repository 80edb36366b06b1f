//! SET with comparisons, DELEX, DELIFEQ, DIGEST: every option and every error.

use crate::exec::dialogue::play;

#[test]
fn digests_are_those_of_xxh3() {
    let long = "x".repeat(1000);
    play(&format!(
        r#"
        DIGEST k                -> $-1¶ | _¶
        SET k ""                -> +OK¶
        DIGEST k                -> $16¶2d06800538d394c2¶
        SET k "Hello world"     -> +OK¶
        DIGEST k                -> $16¶b6acb9d84a38ff74¶
        SET k -999              -> +OK¶
        DIGEST k                -> $16¶9d5a3ec4ad3f47e8¶
        SET k {long}            -> +OK¶
        DIGEST k                -> $16¶c0a4877b962cba82¶
        DIGEST                  -> -ERR wrong number of arguments for 'digest' command¶
        DIGEST k k              -> -ERR wrong number of arguments for 'digest' command¶
        "#
    ));
}

#[test]
fn set_compares_values() {
    play(
        "
        SET k 1 IFEQ 1          -> $-1¶ | _¶
        EXISTS k                -> :0¶
        SET k 1 IFNE 1          -> +OK¶
        SET k 2 IFNE 1          -> $-1¶ | _¶
        SET k 2 IFEQ 2          -> $-1¶ | _¶
        SET k 2 ifeq 1 EX 10    -> +OK¶
        TTL k                   -> :10¶
        SET k 3 IFNE 1 KEEPTTL  -> +OK¶
        TTL k                   -> :10¶
        SET k 4 IFEQ x GET      -> $1¶3¶
        GET k                   -> $1¶3¶
        SET k 4 GET IFEQ 3      -> $1¶3¶
        SET k 5 IFEQ x IFEQ 4   -> +OK¶
        GET k                   -> $1¶5¶
        SET k 6 IFEQ            -> -ERR syntax error¶
        SET k 6 NX IFEQ 5       -> -ERR syntax error¶
        SET k 6 IFEQ 5 XX       -> -ERR syntax error¶
        SET k 6 IFEQ 5 IFNE 4   -> -ERR syntax error¶
        GET k                   -> $1¶5¶
        ",
    );
}

#[test]
fn set_compares_digests() {
    play(
        "
        SET k 1 IFDEQ 0000000000000000  -> $-1¶ | _¶
        SET k hello IFDNE 0000000000000000  -> +OK¶
        SET k a IFDEQ 0000000000000000  -> $-1¶ | _¶
        SET k a IFDNE 9555E8555C62DCFD    -> $-1¶ | _¶
        SET k a IFDEQ 9555E8555C62DCFD    -> +OK¶
        GET k                   -> $1¶a¶
        SET k b IFDEQ 123       -> -ERR must be exactly 16 hexadecimal characters¶
        SET k b IFDNE 000000000000000g  -> -ERR must be exactly 16 hexadecimal characters¶
        GET k                   -> $1¶a¶
        ",
    );
}

#[test]
fn delex() {
    play(
        "
        DELEX k                 -> :0¶
        DELEX k IFEQ 1          -> :0¶
        DELEX k IFNE 1          -> :0¶
        DELEX k IFDNE 123       -> :0¶
        DELEX k NEVER 1         -> :0¶
        SET k hello             -> +OK¶
        DELEX k IFEQ hell       -> :0¶
        DELEX k IFNE hello      -> :0¶
        DELEX k IFDEQ 0000000000000000  -> :0¶
        DELEX k IFDNE 9555e8555c62dcfd    -> :0¶
        EXISTS k                -> :1¶
        DELEX k IFDEQ 9555e8555c62dcfd    -> :1¶
        EXISTS k                -> :0¶
        SET k 12                -> +OK¶
        DELEX k ifeq 12         -> :1¶
        SET k 12                -> +OK¶
        DELEX k IFNE 13         -> :1¶
        SET k 12                -> +OK¶
        DELEX k NEVER 1         -> -ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE¶
        DELEX k IFDEQ 123       -> -ERR must be exactly 16 hexadecimal characters¶
        DELEX k IFEQ            -> -ERR wrong number of arguments for 'delex' command¶
        DELEX k IFEQ 12 x       -> -ERR wrong number of arguments for 'delex' command¶
        DELEX                   -> -ERR wrong number of arguments for 'delex' command¶
        DELEX k                 -> :1¶
        ",
    );
}

#[test]
fn delifeq() {
    play(
        "
        DELIFEQ k 1             -> :0¶
        SET k 1                 -> +OK¶
        DELIFEQ k 2             -> :0¶
        DELIFEQ k 1             -> :1¶
        EXISTS k                -> :0¶
        DELIFEQ k               -> -ERR wrong number of arguments for 'delifeq' command¶
        ",
    );
}
