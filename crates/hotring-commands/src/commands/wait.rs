//! WAITKEY: waits until a key changes, or has a given value. The command is an extension of hotring.
//!
//! The handler does not block. It begins a wait, which the connection's task continues (`socket/wait.rs`). Meanwhile
//! the connection runs no other request, as with Redis's blocking commands.

use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use hotring_protocol::parse_i64;
use hotring_store::StoreError;

use crate::state::client::Wait;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn waitkey(c: &mut Context<'_>) -> Outcome {
    let limit = limit(&c.args[2])?;
    let expected = match c.args.len() {
        3 => None,
        5 if c.args[3].eq_ignore_ascii_case(b"value") => Some(&c.args[4]),
        _ => return Err(Failure::Syntax),
    };
    let waker = Waker::from(c.client.shared.clone());
    let watch = c.store.watch(&c.args[1], expected, waker, c.now)?;
    if c.store.is_displaced() {
        // The end of all waits for keys that are no longer served may have come before this one began.
        return Err(StoreError::Displaced.into());
    }
    if watch.has_fired() {
        c.reply.int(1);
    } else {
        c.client.begin_wait(Wait::Key { watch, limit });
        // ORDERING: Relaxed, a figure.
        c.client
            .shared
            .queued_len
            .store(expected.map_or(0, |value| value.len()), Ordering::Relaxed);
    }
    Ok(())
}

/// Parses a timeout in milliseconds; 0 for no limit. The errors are those of Redis's blocking commands.
fn limit(text: &[u8]) -> Result<Option<Duration>, Failure> {
    let number =
        parse_i64(text).ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    let limit = u64::try_from(number).map_err(|_| Failure::text("ERR timeout is negative"))?;
    Ok((limit > 0).then(|| Duration::from_millis(limit)))
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::{Dialogue, play};

    #[test]
    fn a_present_value_ends_the_wait_at_once() {
        play(
            r#"
            SET k 12                    -> +OK¶
            WAITKEY k 0 VALUE 12        -> :1¶
            waitkey k 100 value 12      -> :1¶
            INCR k                      -> :13¶
            WAITKEY k 0 VALUE 13        -> :1¶
            SET k ""                    -> +OK¶
            WAITKEY k 0 VALUE ""        -> :1¶
            INFO nothing                -> $0¶¶ | =4¶txt:¶
            WAITKEY                     -> -ERR wrong number of arguments for 'waitkey' command¶
            WAITKEY k                   -> -ERR wrong number of arguments for 'waitkey' command¶
            WAITKEY k x                 -> -ERR timeout is not an integer or out of range¶
            WAITKEY k 1.5               -> -ERR timeout is not an integer or out of range¶
            WAITKEY k 9223372036854775808 -> -ERR timeout is not an integer or out of range¶
            WAITKEY k -1                -> -ERR timeout is negative¶
            WAITKEY k 0 VALUE           -> -ERR syntax error¶
            WAITKEY k 0 12              -> -ERR syntax error¶
            WAITKEY k 0 EQUAL 12        -> -ERR syntax error¶
            WAITKEY k 0 VALUE 12 13     -> -ERR syntax error¶
            "#,
        );
    }

    #[test]
    fn the_number_of_waiters_is_limited() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        assert_eq!(dialogue.say("CONFIG SET max-waiting-clients 0"), "+OK¶");
        let refused = "-ERR 0 clients are waiting already (max-waiting-clients)¶";
        assert_eq!(dialogue.say("WAITKEY k 0"), refused);
        assert_eq!(dialogue.say("CONFIG SET max-waiting-clients 1"), "+OK¶");
        assert!(
            dialogue.say("INFO clients").contains("waiting_clients:0¶waiting_clients_limit:1¶")
        );
        assert_eq!(dialogue.say("WAITKEY k 0"), "", "it waits");
    }
}
