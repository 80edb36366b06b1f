//! CLIENT PAUSE, UNPAUSE, REPLY, UNBLOCK: delay requests, suppress replies, and end waits.

use hotring_protocol::parse_i64;

use crate::state::client::{Replies, Unblocked};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::pause::Paused;
use crate::table::quoted;

/// Delays requests: on this thread from the next request, on other threads from their next batch.
pub(crate) fn pause(c: &mut Context<'_>) -> Outcome {
    check_len(c)?;
    let paused = match c.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"all") => Paused::Everything,
        Some(b"write") => Paused::Writes,
        Some(_) => return Err(Failure::text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let time = parse_i64(&c.args[2])
        .ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    let time = u64::try_from(time).map_err(|_| Failure::text("ERR timeout is negative"))?;
    let until = c.now.checked_add(time).filter(|until| *until <= i64::MAX as u64);
    let until = until.ok_or(Failure::text("ERR timeout is out of range"))?;
    if time > 0 {
        c.server.clients.pause.begin(until, paused, c.now);
        c.server.settings.renew();
    }
    c.reply.ok();
    Ok(())
}

/// Allows at most one argument after the number.
fn check_len(c: &Context<'_>) -> Outcome {
    if c.args.len() > 4 {
        let name = quoted(&c.args[1]);
        return Err(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try CLIENT HELP."
        )
        .into());
    }
    Ok(())
}

pub(crate) fn unpause(c: &mut Context<'_>) -> Outcome {
    c.server.clients.pause.end();
    c.server.tasks.expirer.wake();
    c.server.settings.renew();
    // Wake all connections: a connection that has just seen the pause may not be marked as waiting yet.
    c.server.clients.all().iter().for_each(|client| client.wake());
    c.reply.ok();
    Ok(())
}

pub(crate) fn reply(c: &mut Context<'_>) -> Outcome {
    match c.args[2].to_ascii_lowercase().as_slice() {
        b"on" => {
            c.client.want_replies(Replies::All);
            c.reply.ok();
        }
        b"off" => c.client.want_replies(Replies::None),
        b"skip" if c.client.replies() == Replies::None => {}
        b"skip" => c.client.want_replies(Replies::AllButNext),
        _ => return Err(Failure::Syntax),
    }
    Ok(())
}

pub(crate) fn unblock(c: &mut Context<'_>) -> Outcome {
    check_len(c)?;
    let reason = match c.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"timeout") => Unblocked::TimedOut,
        Some(b"error") => Unblocked::Failed,
        Some(_) => {
            return Err(Failure::text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
    };
    let id = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let client = u64::try_from(id).ok().and_then(|id| c.server.clients.find(id));
    c.reply.int(client.is_some_and(|client| client.unblock(reason)).into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::{Dialogue, play};

    #[test]
    fn arguments_are_checked_as_redis_checks_them() {
        play(
            r#"
            CLIENT PAUSE              -> -ERR wrong number of arguments for 'client|pause' command¶
            CLIENT PAUSE x            -> -ERR timeout is not an integer or out of range¶
            CLIENT PAUSE -1           -> -ERR timeout is negative¶
            CLIENT PAUSE 9223372036854775807 -> -ERR timeout is out of range¶
            CLIENT PAUSE 10 nonsense  -> -ERR CLIENT PAUSE mode must be WRITE or ALL¶
            CLIENT PAUSE 10 ALL x     -> -ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.¶
            CLIENT PAUSE 0            -> +OK¶
            CLIENT UNPAUSE            -> +OK¶
            CLIENT UNBLOCK x          -> -ERR value is not an integer or out of range¶
            CLIENT UNBLOCK 999        -> :0¶
            CLIENT UNBLOCK -1 ERROR   -> :0¶
            CLIENT UNBLOCK 1 nonsense -> -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR¶
            CLIENT REPLY nonsense     -> -ERR syntax error¶
            GET k                     -> $-1¶ | _¶
            "#,
        );
    }

    #[test]
    fn only_replies_that_are_wanted_are_sent() {
        play(
            r#"
            CLIENT REPLY OFF          -> 
            INCR n                    -> 
            NONSENSE                  -> 
            GET                       -> 
            CLIENT REPLY SKIP         -> 
            CLIENT REPLY nonsense     -> 
            MULTI                     -> 
            INCR n                    -> 
            EXEC                      -> 
            CLIENT REPLY ON           -> +OK¶
            GET n                     -> $1¶2¶
            CLIENT REPLY SKIP         -> 
            INCR n                    -> 
            INCR n                    -> :4¶
            CLIENT REPLY SKIP         -> 
            CLIENT REPLY SKIP         -> 
            INCR n                    -> 
            INCR n                    -> :6¶
            CLIENT REPLY SKIP         -> 
            CLIENT REPLY ON           -> +OK¶
            INCR n                    -> :7¶
            CLIENT REPLY OFF          -> 
            RESET                     -> +RESET¶
            "#,
        );
        let mut dialogue = Dialogue::new(Version::Resp3);
        assert_eq!(dialogue.say("INCR n\r\nCLIENT REPLY SKIP\r\nINCR n\r\nINCR n"), ":1¶:3¶");
        // Messages are sent in any mode.
        assert_eq!(
            dialogue.say("CLIENT REPLY OFF\r\nSUBSCRIBE a\r\nPUBLISH a x\r\nSUBSCRIBE\r\nGET n"),
            ">3¶$9¶subscribe¶$1¶a¶:1¶>3¶$7¶message¶$1¶a¶$1¶x¶"
        );
    }
}
