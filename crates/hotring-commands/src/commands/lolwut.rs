//! LOLWUT: a picture, and the versions of the server.

use hotring_protocol::parse_i64;

use super::REDIS_VERSION;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// A ring of items; the slots around it point at some of them.
const PICTURE: &str = r"
              slot
               |
          .--o-O-o--.
        o'           'o
 slot--O               o
       |               |
       o               O--slot
        o.           .o
          '--O-o-o--'
             |
            slot
";

/// Accepts the VERSION argument, by which Redis selects a picture; the picture is always the same here.
pub(crate) fn lolwut(c: &mut Context<'_>) -> Outcome {
    if c.args.len() > 2 && c.args[1].eq_ignore_ascii_case(b"version") {
        parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    }
    let ours = env!("CARGO_PKG_VERSION");
    let text = format!("{PICTURE}\nhotring {ours}, in the manner of Redis ver. {REDIS_VERSION}\n");
    c.reply.verbatim("txt", &text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Version;

    use crate::exec::dialogue::Dialogue;

    #[test]
    fn a_picture_is_shown_with_the_versions() {
        for (version, kind) in [(Version::Resp2, "$"), (Version::Resp3, "=")] {
            let mut dialogue = Dialogue::new(version);
            let plain = dialogue.say("LOLWUT");
            assert!(plain.starts_with(kind) && plain.contains("Redis ver. "), "{plain}");
            assert_eq!(dialogue.say("LOLWUT VERSION 5 1 2 3"), plain);
            assert_eq!(dialogue.say("LOLWUT x y z"), plain);
            let wrong = dialogue.say("LOLWUT VERSION x");
            assert_eq!(wrong, "-ERR value is not an integer or out of range¶");
        }
    }
}
