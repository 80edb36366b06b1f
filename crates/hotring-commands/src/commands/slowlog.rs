//! SLOWLOG: the requests that took longer than a threshold.

use hotring_protocol::parse_i64;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Number of requests in a reply when the request gives no count.
const COUNT_DEFAULT: usize = 10;

pub(crate) fn get(c: &mut Context<'_>) -> Outcome {
    let count = match c.args.len() {
        2 => COUNT_DEFAULT,
        3 => {
            let count = parse_i64(&c.args[2])
                .filter(|count| *count >= -1)
                .ok_or(Failure::text("ERR count should be greater than or equal to -1"))?;
            // -1 asks for all requests.
            usize::try_from(count).unwrap_or(usize::MAX)
        }
        _ => return Err(Failure::Arity("slowlog|get".into())),
    };
    let requests = c.server.observe.slowlog.latest(count);
    c.reply.array(requests.len());
    for request in requests {
        c.reply.array(6);
        c.reply.int(request.id as i64);
        c.reply.int(request.at as i64);
        c.reply.int(i64::try_from(request.took).unwrap_or(i64::MAX));
        c.reply.array(request.args.len());
        request.args.iter().for_each(|arg| c.reply.bulk(arg));
        c.reply.bulk(request.peer.as_bytes());
        c.reply.bulk(request.name.as_bytes());
    }
    c.check_reply_len()
}

pub(crate) fn len(c: &mut Context<'_>) -> Outcome {
    c.reply.count(c.server.observe.slowlog.len());
    Ok(())
}

pub(crate) fn reset(c: &mut Context<'_>) -> Outcome {
    c.server.observe.slowlog.clear();
    c.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::{Dialogue, play};

    #[test]
    fn slow_commands_are_kept() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        // From 0 microseconds on, all that is timed takes long.
        assert_eq!(dialogue.say("CONFIG SET slowlog-log-slower-than 0"), "+OK¶");
        dialogue.say("SLOWLOG RESET");
        dialogue.say("CLIENT SETNAME me");
        dialogue.say("SLOWLOG RESET");
        dialogue.say("SET k v");
        dialogue.say("GET k");
        dialogue.say("HSET h f v");
        dialogue.say("RPOP k");
        dialogue.say("AUTH secret");
        dialogue.say(&format!("LINSERT l BEFORE f {}", "v".repeat(130)));
        let many: String = (0..40).map(|i| format!(" {i}")).collect();
        dialogue.say(&format!("SDIFF h{many}"));
        let reply = dialogue.say("SLOWLOG GET");
        // The latest first; each begins with its number, its time and how long it took.
        assert!(reply.starts_with("*3¶*6¶:"), "{reply}");
        let keys: String = (0..29).map(|i| format!("${}¶{i}¶", i.to_string().len())).collect();
        let sdiff =
            format!("*32¶$5¶SDIFF¶$1¶h¶{keys}$23¶... (11 more arguments)¶$4¶peer¶$2¶me¶*6¶");
        assert!(reply.contains(&sdiff), "{reply}");
        let linsert = format!("$146¶{}... (2 more bytes)¶$4¶peer¶$2¶me¶", "v".repeat(128));
        assert!(reply.contains(&linsert), "{reply}");
        assert!(!reply.contains("secret") && !reply.contains("GET¶$1¶k¶"), "{reply}");
        assert_eq!(dialogue.say("SLOWLOG LEN"), ":4¶");
        assert_eq!(dialogue.say("CONFIG SET slowlog-max-len 2"), "+OK¶");
        assert_eq!(dialogue.say("SLOWLOG LEN"), ":2¶");
        assert_eq!(dialogue.say("CONFIG SET slowlog-log-slower-than -1"), "+OK¶");
        assert_eq!(dialogue.say("SLOWLOG RESET"), "+OK¶");
        dialogue.say("HGETALL h");
        assert_eq!(dialogue.say("SLOWLOG GET -1"), "*0¶");
    }

    /// MGET, MSET and DEL of 200,000 keys took up to five seconds, and a SET of 100 MB a quarter, with nothing in the
    /// log.
    #[test]
    fn a_quick_command_is_kept_that_has_many_keys_or_bytes() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        dialogue.say("CONFIG SET slowlog-log-slower-than 0");
        let mut is_kept = |request: &str| {
            dialogue.say("SLOWLOG RESET");
            let words: Vec<&str> = request.split(' ').collect();
            let in_full = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
            let in_full = format!("*{}\r\n{}", words.len(), in_full.collect::<String>());
            dialogue.ask(in_full.as_bytes());
            dialogue.say("SLOWLOG LEN") != ":1¶"
        };
        for command in
            ["MGET", "MSET k", "MSETNX k", "DEL", "UNLINK", "EXISTS", "TOUCH", "PIN", "UNPIN"]
        {
            let many = |n| format!("{command}{}", " k".repeat(n - command.split(' ').count()));
            assert!(is_kept(&many(65)) && !is_kept(&many(63)), "{command}");
        }
        let long = "x".repeat(crate::state::batching::TURN_LEN);
        assert!(is_kept(&format!("SET k {long}")) && is_kept(&format!("GET {long}")));
        for request in ["APPEND k x", "GETRANGE k 0 -1", "SETRANGE k 9 x", "COPY k k2"] {
            assert!(is_kept(request), "{request}");
        }
        for request in ["GET k", "SET k v", "MGET k k", "INCR n", "EXPIRE k 100", "TTL k"] {
            assert!(!is_kept(request), "{request}");
        }
    }

    #[test]
    fn mistakes() {
        play(
            "
            SLOWLOG GET 0           -> *0¶
            SLOWLOG GET -2          -> -ERR count should be greater than or equal to -1¶
            SLOWLOG GET x           -> -ERR count should be greater than or equal to -1¶
            SLOWLOG GET 1 2         -> -ERR wrong number of arguments for 'slowlog|get' command¶
            SLOWLOG LEN 1           -> -ERR wrong number of arguments for 'slowlog|len' command¶
            ",
        );
    }
}
