//! PIN, UNPIN, PINNED: keys that are never evicted. All three are extensions of hotring.

use hotring_protocol::parse_i64;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Default number of keys in a reply of PINNED.
const COUNT: usize = 100;
/// Most keys that one call lists.
const COUNT_MAX: usize = 10_000;

pub(crate) fn pin(c: &mut Context<'_>) -> Outcome {
    let keys: Vec<&[u8]> = c.args.tail(1).iter().collect();
    let pinned = c.store.pin(&keys, c.now)?;
    c.reply.count(pinned);
    Ok(())
}

pub(crate) fn unpin(c: &mut Context<'_>) -> Outcome {
    let keys: Vec<&[u8]> = c.args.tail(1).iter().collect();
    let unpinned = c.store.unpin(&keys);
    c.store.take_refused()?;
    c.reply.count(unpinned);
    Ok(())
}

pub(crate) fn pinned(c: &mut Context<'_>) -> Outcome {
    let options = c.args.tail(1);
    let (mut after, mut count) = (None, COUNT);
    for i in (0..options.len()).step_by(2) {
        let value = options.get(i + 1).ok_or(Failure::Syntax)?;
        if options.at(i).eq_ignore_ascii_case(b"after") {
            after = Some(value);
        } else if options.at(i).eq_ignore_ascii_case(b"count") {
            let number = parse_i64(value).ok_or(Failure::NotAnInteger)?;
            count =
                usize::try_from(number).ok().filter(|count| *count > 0).ok_or(Failure::Syntax)?;
        } else {
            return Err(Failure::Syntax);
        }
    }
    let keys = c.store.pinned_keys(after, count.min(COUNT_MAX));
    c.reply.array(keys.len());
    keys.iter().for_each(|key| c.reply.bulk(key));
    c.check_reply_len()
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::Dialogue;

    #[test]
    fn keys_are_pinned_listed_and_let_go() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        dialogue.say("MSET a 1 b 2");
        assert_eq!(dialogue.say("PIN a b absent"), ":3¶");
        assert_eq!(dialogue.say("PIN a"), ":0¶");
        assert_eq!(dialogue.say("PINNED"), "*3¶$1¶a¶$6¶absent¶$1¶b¶");
        assert_eq!(dialogue.say("PINNED COUNT 1 AFTER a"), "*1¶$6¶absent¶");
        assert_eq!(dialogue.say("UNPIN a none"), ":1¶");
        assert_eq!(dialogue.say("PINNED"), "*2¶$6¶absent¶$1¶b¶");
        for wrong in ["PINNED COUNT", "PINNED COUNT 0", "PINNED WHICH a"] {
            assert_eq!(dialogue.say(wrong), "-ERR syntax error¶");
        }
        dialogue.say("FLUSHALL");
        assert_eq!(dialogue.say("PINNED"), "*0¶");
    }

    #[test]
    fn who_pins_too_much_is_told() {
        let mut dialogue = Dialogue::new(Version::Resp2);
        dialogue.server().store.set_pinned_max(100);
        let reply = dialogue.say("PIN a b c");
        assert!(reply.starts_with("-ERR") && reply.contains("unpin other keys first"), "{reply}");
        assert_eq!(dialogue.say("PINNED"), "*0¶");
    }
}
