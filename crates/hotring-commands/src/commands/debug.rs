//! DEBUG: the subcommands that the tests of clients use. Refused unless a setting allows them, because they can block
//! an entire thread.

use std::time::Duration;

use hotring_store::DigestWalk;

use super::object::{encoding_name, idle_seconds};
use crate::host::fiber::rest;
use crate::rdb::dump::dump;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Longest DEBUG SLEEP, in seconds.
const SLEEP_MAX: f64 = 60.0;

pub(crate) fn debug(c: &mut Context<'_>) -> Outcome {
    if !c.server.settings.config().debug_command.allows(&c.client.shared.peer) {
        return Err(Failure::text(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can \
             run it from a local connection, otherwise you need to set this option in the configuration \
             file, and then restart the server.",
        ));
    }
    let name = c.args[1].to_ascii_lowercase();
    match (name.as_slice(), c.args.len()) {
        (b"sleep", 3) => sleep(c),
        (b"digest", 2) => digest(c),
        (b"object", 3) => object(c),
        (b"log", 3) => {
            let text = c.args[2].escape_ascii().to_string();
            tracing::warn!("DEBUG LOG: {text}");
            c.reply.ok();
            Ok(())
        }
        (b"protocol", 3) => protocol(c),
        (b"error", 3) => {
            c.reply.error(c.args.at(2));
            Ok(())
        }
        (b"help", 2) => {
            help(c);
            Ok(())
        }
        _ => {
            let name = crate::table::quoted(c.args.at(1));
            let why = "unknown subcommand or wrong number of arguments for";
            Err(format!("ERR {why} '{name}'. Try DEBUG HELP.").into())
        }
    }
}

/// Blocks the thread, and with it all of its clients, as in Redis.
fn sleep(c: &mut Context<'_>) -> Outcome {
    let text = String::from_utf8_lossy(&c.args[2]).into_owned();
    let seconds = text.parse::<f64>().unwrap_or(0.0);
    if !seconds.is_finite() || seconds > SLEEP_MAX {
        return Err(format!("ERR no more than {SLEEP_MAX} seconds").into());
    }
    std::thread::sleep(Duration::from_secs_f64(seconds.max(0.0)));
    c.reply.ok();
    Ok(())
}

/// A digest of all data, to compare a replica with its primary. Other clients are served between its steps.
fn digest(c: &mut Context<'_>) -> Outcome {
    let mut walk = DigestWalk::new(c.now);
    loop {
        match walk.step(c.store) {
            Ok(true) => rest(),
            Ok(false) => break,
            Err(damaged) => return Err(Failure::Damaged(damaged.key.unwrap_or_default())),
        }
    }
    c.reply.simple(format!("{:040x}", walk.digest()));
    Ok(())
}

fn object(c: &mut Context<'_>) -> Outcome {
    // DEBUG OBJECT must not count as an access to the key.
    let found =
        c.store.peek_value(&c.args[2], c.now, |value| (encoding_name(value), dump(value).len()));
    let (encoding, dumped) = found.ok_or(Failure::text("ERR no such key"))?;
    // The length without the parts that DUMP adds: type, version and checksum.
    let len = dumped - 11;
    c.server.observe.ages.note(|| c.server.store.tick(), c.now);
    let accesses = c.store.accesses(&c.args[2], c.now);
    let idle = accesses.map_or(0, |accesses| idle_seconds(c, accesses));
    let used_at = (c.now / 1000).saturating_sub(idle) & 0xff_ffff;
    let line = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{len} lru:{used_at} \
         lru_seconds_idle:{idle}"
    );
    c.reply.simple(line);
    Ok(())
}

/// Sends a reply of the requested kind, for tests of RESP parsers.
fn protocol(c: &mut Context<'_>) -> Outcome {
    let kind = c.args[2].to_ascii_lowercase();
    match kind.as_slice() {
        b"string" => c.reply.bulk(b"Hello World"),
        b"integer" => c.reply.int(12_345),
        b"double" => c.reply.decimal(b"3.141"),
        b"null" => c.reply.null(),
        b"bignum" => c.reply.big_number(b"1234567999999999999999999999999999999"),
        b"true" => c.reply.boolean(true),
        b"false" => c.reply.boolean(false),
        b"verbatim" => c.reply.verbatim("txt", "This is a verbatim\nstring"),
        b"array" | b"set" | b"push" => {
            match kind.as_slice() {
                b"array" => c.reply.array(3),
                b"set" => c.reply.set(3),
                _ => c.reply.push(3),
            }
            (0..3).for_each(|n| c.reply.int(n));
        }
        b"map" => {
            c.reply.map(3);
            (0..3).for_each(|n| {
                c.reply.int(n);
                c.reply.boolean(n == 1);
            });
        }
        _ => {
            return Err(Failure::text(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|double|\
                 null|array|set|map|push|verbatim|true|false|bignum",
            ));
        }
    }
    Ok(())
}

fn help(c: &mut Context<'_>) {
    let lines = [
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DIGEST",
        "    Computes a digest of all data, the same for the same data.",
        "ERROR <text>",
        "    Answers with this error.",
        "LOG <message>",
        "    Writes a line into the server's log.",
        "OBJECT <key>",
        "    Tells how a value is held.",
        "PROTOCOL <type>",
        "    Answers with a reply of this type.",
        "SLEEP <seconds>",
        "    Makes a thread wait, with all of its clients.",
        "HELP",
        "    Prints this help.",
    ];
    c.reply.array(lines.len());
    lines.iter().for_each(|line| c.reply.simple(line));
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;
    use hotring_store::Options;

    use crate::exec::dialogue::{Dialogue, play_to};
    use crate::settings::config::Config;
    use crate::settings::guard::Guard;

    #[test]
    fn debug_is_refused_unless_it_is_allowed() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        assert!(dialogue.say("DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed."));
        let refused = dialogue.say("CONFIG SET enable-debug-command yes");
        assert!(refused.contains("can't set immutable config"), "{refused}");
    }

    #[test]
    fn the_digest_is_that_of_the_data() {
        let config = Config { debug_command: Guard::Yes, ..Config::default() };
        let mut dialogue = Dialogue::with_config(Version::Resp2, Options::default(), config);
        let mut after = |request: &str| {
            dialogue.say(request);
            dialogue.say("DEBUG DIGEST")
        };
        let one = after("SET k 12");
        let two = after("RPUSH l a b");
        assert_eq!(one.trim_end_matches('¶').len(), "+".len() + 40, "{one}");
        assert!(one != two && after("DEL l") == one);
        assert!(after("EXPIREAT k 33000000000") != one && after("SET k 12") == one);
    }

    #[test]
    fn what_tests_of_clients_ask() {
        let config = Config { debug_command: Guard::Yes, ..Config::default() };
        play_to(
            |version| Dialogue::with_config(version, Options::default(), config.clone()),
            "
            DEBUG SLEEP 0             -> +OK¶
            DEBUG SLEEP 1e9           -> -ERR no more than 60 seconds¶
            DEBUG ERROR 'BUSY me'     -> -BUSY me¶
            DEBUG LOG hello           -> +OK¶
            DEBUG OBJECT k            -> -ERR no such key¶
            DEBUG DIGEST              -> +0000000000000000000000000000000000000000¶
            SET k 12                  -> +OK¶
            DEBUG OBJECT k            -> +Value at:0x0 refcount:1 encoding:int serializedlength:2 lru:5501184 lru_seconds_idle:0¶
            DEBUG PROTOCOL string     -> $11¶Hello World¶
            DEBUG PROTOCOL null       -> $-1¶ | _¶
            DEBUG PROTOCOL set        -> *3¶:0¶:1¶:2¶ | ~3¶:0¶:1¶:2¶
            DEBUG PROTOCOL map        -> *6¶:0¶:0¶:1¶:1¶:2¶:0¶ | %3¶:0¶#f¶:1¶#t¶:2¶#f¶
            DEBUG PROTOCOL bignum     -> $37¶1234567999999999999999999999999999999¶ | (1234567999999999999999999999999999999¶
            DEBUG SLEEP               -> -ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP.¶
            DEBUG NONSENSE            -> -ERR unknown subcommand or wrong number of arguments for 'NONSENSE'. Try DEBUG HELP.¶
            ",
        );
    }
}
