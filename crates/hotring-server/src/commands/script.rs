//! Scripts: EVAL, EVALSHA, their read-only forms, SCRIPT.
//!
//! A script runs while nobody else can look at or change its keys ([`Context::alone`]), so that all of it
//! happens at one moment. Which keys those are only it knows: Redis lets it use others than it was given.
//! Therefore a script runs first with the whole store to itself. If it has used only keys that it was
//! given, later runs hold only these, and others' keys do not wait. Should one of them want another key
//! after all, then it begins anew with the whole store, as long as it has written nothing; if it has, the
//! command is refused, this once. `docs/decisions/0013-scripts.md` has the reasons.

use std::sync::Arc;

use hotring_protocol::{ArgsView, lookup, parse_i64};
use hotring_store::Key;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::monitors;
use crate::script::{Compiled, Ended, Interpreter, Run};
use crate::scripts::{DIGEST_LEN, Kill, Reach, Script, digest, digest_text, parse_digest};

const NO_SCRIPT: Failure = Failure::text("NOSCRIPT No matching script. Please use EVAL.");

/// The keys and the other arguments.
fn arguments<'a>(args: ArgsView<'a>) -> Result<(ArgsView<'a>, ArgsView<'a>), Failure> {
    let rest = args.tail(3);
    let n_keys = parse_i64(&args[2]).ok_or(Failure::NotAnInteger)?;
    match usize::try_from(n_keys) {
        Err(_) => Err(Failure::text("ERR Number of keys can't be negative")),
        Ok(n) if n > rest.len() => {
            Err(Failure::text("ERR Number of keys can't be greater than number of args"))
        }
        Ok(n) => Ok((rest.slice(0..n), rest.tail(n))),
    }
}

pub(crate) fn eval(c: &mut Context<'_>, read_only: bool) -> Outcome {
    let (keys, args) = arguments(c.args)?;
    let sha = digest(c.args.at(1));
    with_interpreter(c, |interpreter, c| {
        let compiled = match interpreter.find(&sha, &c.server.scripts) {
            Some(compiled) => compiled,
            None => {
                let known = c.server.scripts.find(&sha);
                let is_new = known.is_none();
                let script = match known {
                    Some(script) => script,
                    None => Arc::new(Script::new(&sha, c.args.at(1))?),
                };
                let compiled = interpreter.compile(&sha, script)?;
                if is_new {
                    let len_max = c.server.config().script_cache_max;
                    compiled.script.note_use(c.now);
                    c.server.scripts.add(sha, &compiled.script, len_max);
                }
                compiled
            }
        };
        run(interpreter, &compiled, keys, args, read_only, c)
    })
}

pub(crate) fn evalsha(c: &mut Context<'_>, read_only: bool) -> Outcome {
    if c.args[1].len() != DIGEST_LEN {
        return Err(NO_SCRIPT);
    }
    let (keys, args) = arguments(c.args)?;
    let sha = parse_digest(c.args.at(1)).ok_or(NO_SCRIPT)?;
    with_interpreter(c, |interpreter, c| {
        let compiled = match interpreter.find(&sha, &c.server.scripts) {
            Some(compiled) => compiled,
            None => {
                let script = c.server.scripts.find(&sha).ok_or(NO_SCRIPT)?;
                interpreter.compile(&sha, script)?
            }
        };
        run(interpreter, &compiled, keys, args, read_only, c)
    })
}

/// Runs `f` with the thread's interpreter, which it gets with its first script.
fn with_interpreter(
    c: &mut Context<'_>,
    f: impl FnOnce(&mut Interpreter, &mut Context<'_>) -> Outcome,
) -> Outcome {
    let mut interpreter = match c.own.interpreter.take() {
        Some(interpreter) => interpreter,
        None => new_interpreter(c)?,
    };
    let last = c.client.last;
    let lent = std::mem::take(&mut c.own.lent);
    let outcome = f(&mut interpreter, c);
    c.own.lent = lent;
    c.client.last = last;
    if !interpreter.is_spent() {
        c.own.interpreter = Some(interpreter);
    }
    outcome
}

fn new_interpreter(c: &Context<'_>) -> Result<Box<Interpreter>, Failure> {
    let running = Arc::clone(&c.server.threads[c.client.shared.thread].script);
    Interpreter::new(&c.server.config(), running)
}

/// Runs a script with its keys, or with all of them if it may use others.
fn run(
    interpreter: &mut Interpreter,
    compiled: &Compiled,
    keys: ArgsView<'_>,
    args: ArgsView<'_>,
    read_only: bool,
    c: &mut Context<'_>,
) -> Outcome {
    let script = &compiled.script;
    if read_only && script.writes {
        return Err(Failure::text(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    script.note_use(c.now);
    let client = monitors::From::Client(&c.client.shared);
    // Before the commands of the script.
    let spec = lookup(c.args.at(0)).expect("what runs is a command");
    monitors::show_always(spec, c.args, client, c.server);
    let read_only = read_only || script.no_writes;
    let all = Run { keys, args, read_only, has_all: true };
    let some = Run { has_all: false, ..all };
    // Room is made before the hold, within which nothing is evicted. Without it the script's writes are refused.
    let _ = c.store.admit();
    let is_alone = c.store.is_alone();
    let known = script.reach() == Reach::Declared;
    let ended = match (is_alone, known) {
        (true, _) => interpreter.run(compiled, all, c)?,
        (false, false) => c.alone(&[], |c| interpreter.run(compiled, all, c))?,
        (false, true) if keys.is_empty() => interpreter.run(compiled, some, c)?,
        (false, true) => {
            let keys: Vec<&[u8]> = keys.iter().collect();
            c.store.prefetch(&mut keys.iter().map(Key::from).collect::<Vec<_>>());
            c.alone(&keys, |c| interpreter.run(compiled, some, c))?
        }
    };
    match ended {
        Ended::Replied => c.check_room(),
        Ended::NeedsAll => again(compiled, all, c),
    }
}

/// Runs a script that has wanted more than it was given, from its beginning. Its interpreter has ended
/// with the first try.
fn again(compiled: &Compiled, run: Run<'_>, c: &mut Context<'_>) -> Outcome {
    let script = Arc::clone(&compiled.script);
    let sha = parse_digest(script.name.as_bytes()).expect("the name of a script is its digest");
    with_interpreter(c, |interpreter, c| {
        let compiled = interpreter.compile(&sha, script)?;
        c.alone(&[], |c| interpreter.run(&compiled, run, c))?;
        c.check_room()
    })
}

pub(crate) fn load(c: &mut Context<'_>) -> Outcome {
    let text = c.args.at(2);
    let sha = digest(text);
    with_interpreter(c, |interpreter, c| {
        let script = match interpreter.find(&sha, &c.server.scripts) {
            Some(compiled) => compiled.script,
            None => interpreter.compile(&sha, Arc::new(Script::new(&sha, text)?))?.script,
        };
        c.server.scripts.load(sha, script, c.server.config().script_cache_max)
    })?;
    c.reply.bulk(digest_text(&sha).as_bytes());
    Ok(())
}

pub(crate) fn exists(c: &mut Context<'_>) -> Outcome {
    let names = c.args.tail(2);
    c.reply.array(names.len());
    for name in names.iter() {
        let sha = parse_digest(name);
        let is_known = sha.is_some_and(|sha| c.server.scripts.find(&sha).is_some());
        c.reply.int(is_known.into());
    }
    Ok(())
}

/// ASYNC and SYNC are the same here: there is nothing that others would wait for.
pub(crate) fn flush(c: &mut Context<'_>) -> Outcome {
    let known =
        |word: &[u8]| word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync");
    if c.args.len() > 3 || c.args.get(2).is_some_and(|word| !known(word)) {
        return Err(Failure::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    c.server.scripts.clear();
    c.reply.ok();
    Ok(())
}

pub(crate) fn kill(c: &mut Context<'_>) -> Outcome {
    let kills: Vec<Kill> = c.server.threads.iter().map(|thread| thread.script.kill()).collect();
    if kills.contains(&Kill::Killed) {
        c.reply.ok();
        return Ok(());
    }
    Err(Failure::text(if kills.contains(&Kill::TooLate) {
        "UNKILLABLE Sorry the script already executed write commands against the dataset. It ends at \
         lua-time-limit."
    } else {
        "NOTBUSY No scripts in execution right now."
    }))
}

#[cfg(test)]
mod tests;
