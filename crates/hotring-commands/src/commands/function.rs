//! FUNCTION: replies like a Redis server without functions, for clients that ask when they connect and for test suites
//! that clean up. Libraries cannot be loaded.

use super::process::is_flush_mode;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn flush(c: &mut Context<'_>) -> Outcome {
    match c.args.len() {
        2 => {}
        3 if is_flush_mode(&c.args[2]) => {}
        3 => return Err(Failure::text("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")),
        _ => return Err(Failure::Arity("function|flush".into())),
    }
    c.reply.ok();
    Ok(())
}

pub(crate) fn list(c: &mut Context<'_>) -> Outcome {
    let (mut has_name, mut has_code) = (false, false);
    let mut words = c.args.tail(2).iter();
    while let Some(word) = words.next() {
        if !has_code && word.eq_ignore_ascii_case(b"withcode") {
            has_code = true;
        } else if !has_name && word.eq_ignore_ascii_case(b"libraryname") {
            has_name = true;
            words.next().ok_or(Failure::text("ERR library name argument was not given"))?;
        } else {
            let word = crate::table::quoted(word);
            return Err(Failure::Text(format!("ERR Unknown argument {word}").into()));
        }
    }
    c.reply.array(0);
    Ok(())
}

pub(crate) fn stats(c: &mut Context<'_>) -> Outcome {
    c.reply.map(2);
    c.reply.bulk(b"running_script");
    c.reply.null();
    c.reply.bulk(b"engines");
    c.reply.map(1);
    c.reply.bulk(b"LUA");
    c.reply.map(2);
    for count in ["libraries_count", "functions_count"] {
        c.reply.bulk(count.as_bytes());
        c.reply.int(0);
    }
    Ok(())
}

pub(crate) fn kill(_: &mut Context<'_>) -> Outcome {
    Err(Failure::text("NOTBUSY No scripts in execution right now."))
}

#[cfg(test)]
mod tests {
    use crate::exec::dialogue::play;

    /// The replies of Redis 7.0. Test suites of clients send such requests at their end, and fail on an error.
    #[test]
    fn replies_are_those_of_a_server_without_functions() {
        play(
            "
            FUNCTION FLUSH          -> +OK¶
            FUNCTION FLUSH sync     -> +OK¶
            FUNCTION FLUSH ASYNC    -> +OK¶
            FUNCTION FLUSH x        -> -ERR FUNCTION FLUSH only supports SYNC|ASYNC option¶
            FUNCTION LIST           -> *0¶
            FUNCTION LIST WITHCODE libraryname a -> *0¶
            FUNCTION LIST LIBRARYNAME -> -ERR library name argument was not given¶
            FUNCTION LIST x         -> -ERR Unknown argument x¶
            FUNCTION LIST WITHCODE WITHCODE -> -ERR Unknown argument WITHCODE¶
            FUNCTION KILL           -> -NOTBUSY No scripts in execution right now.¶
            FUNCTION STATS          -> *4¶$14¶running_script¶$-1¶$7¶engines¶*2¶$3¶LUA¶*4¶$15¶libraries_count¶:0¶$15¶functions_count¶:0¶ | %2¶$14¶running_script¶_¶$7¶engines¶%1¶$3¶LUA¶%2¶$15¶libraries_count¶:0¶$15¶functions_count¶:0¶
            FUNCTION                -> -ERR wrong number of arguments for 'function' command¶
            FUNCTION LOAD x         -> -ERR unknown subcommand 'LOAD'. Try FUNCTION HELP.¶
            ",
        );
    }
}
