//! MONITOR: streams every request that the server runs to a connection.

use std::sync::atomic::Ordering;

use crate::state::client::Client;
use crate::state::context::Context;
use crate::state::failure::Outcome;
use crate::state::server::Server;

pub(crate) fn monitor(c: &mut Context<'_>) -> Outcome {
    c.reply.ok();
    if !c.client.monitors {
        set(c.client, true);
        c.server.push.monitors.enter(&c.client.shared);
        c.server.settings.renew();
    }
    Ok(())
}

/// Ends MONITOR for a connection that is reset or has ended.
pub(crate) fn leave(client: &mut Client, server: &Server) {
    if client.monitors {
        set(client, false);
        server.push.monitors.leave(&client.shared);
        server.settings.renew();
    }
}

fn set(client: &mut Client, monitors: bool) {
    client.monitors = monitors;
    // ORDERING: Relaxed, the flag orders no other data: CLIENT LIST shows it, and the task that closes idle connections
    // reads it.
    client.shared.monitors.store(monitors, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::Dialogue;

    /// The requests that MONITOR streamed in this reply, without their times and addresses.
    fn shown(reply: &str) -> Vec<String> {
        let lines = reply.split('¶').filter(|line| line.contains(" [0 "));
        lines.map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn every_request_is_shown_once() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        assert_eq!(dialogue.say("MONITOR"), "+OK¶");
        let shows = |dialogue: &mut Dialogue, line: &str, expected: &[&str]| {
            let reply = dialogue.say(line);
            assert_eq!(shown(&reply), expected, "{line}: {reply}");
        };
        let reply = dialogue.say(r#"SET k "a\"\x00\r\nb""#);
        assert!(reply.contains("[0 peer] \"SET\" \"k\" \"a\\\"\\x00\\r\\nb\"¶"), "{reply}");
        shows(&mut dialogue, "get k", &[r#""get" "k""#]);
        shows(&mut dialogue, "GET", &[]);
        shows(&mut dialogue, "NONSENSE", &[]);
        shows(&mut dialogue, "CONFIG GET port", &[]);
        shows(&mut dialogue, "AUTH secret", &[r#""AUTH" "(redacted)""#]);
        shows(&mut dialogue, "MULTI", &[r#""MULTI""#]);
        shows(&mut dialogue, "INCR n", &[]);
        shows(&mut dialogue, "EXEC", &[r#""INCR" "n""#, r#""EXEC""#]);
        shows(
            &mut dialogue,
            r#"EVAL "return redis.call('GET', KEYS[1])" 1 n"#,
            &[r#""EVAL" "return redis.call('GET', KEYS[1])" "1" "n""#, r#""GET" "n""#],
        );
        assert!(dialogue.say("CLIENT LIST").contains(" flags=O "));
        shows(&mut dialogue, "RESET", &[]);
        shows(&mut dialogue, "GET k", &[]);
    }
}
