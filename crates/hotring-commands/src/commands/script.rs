//! Script commands: EVAL, EVALSHA, their read-only forms, SCRIPT.
//!
//! A script is atomic: it runs while no other session can read or change its keys ([`Context::alone`]). As in Redis, a
//! script may use keys that it was not given. Therefore it holds the entire store, unless its text proves that it uses
//! only the given keys (`state/reach`); then it holds only these, and operations on other keys do not wait.
//!
//! If such a script uses another key after all, it restarts with the entire store, provided that it has written
//! nothing; otherwise the command is refused. `docs/decisions/0013-scripts.md` has the reasons.

use std::sync::Arc;

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{HoldInfo, Key, StoreError};

use super::process::is_flush_mode;
use crate::host::clock;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::interpreter::{Ended, Interpreter, Run};
use crate::state::monitors;
use crate::state::scripts::{
    DIGEST_LEN, HOLDER, Kill, Script, Sha, digest, digest_text, parse_digest,
};
use crate::state::shown;
use crate::table::lookup;

const NO_SCRIPT: Failure = Failure::text("NOSCRIPT No matching script. Please use EVAL.");

/// Splits the arguments into the keys and the rest.
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

pub(crate) fn eval(c: &mut Context<'_>) -> Outcome {
    eval_as(c, false)
}

pub(crate) fn eval_ro(c: &mut Context<'_>) -> Outcome {
    eval_as(c, true)
}

pub(crate) fn evalsha(c: &mut Context<'_>) -> Outcome {
    evalsha_as(c, false)
}

pub(crate) fn evalsha_ro(c: &mut Context<'_>) -> Outcome {
    evalsha_as(c, true)
}

fn eval_as(c: &mut Context<'_>, read_only: bool) -> Outcome {
    let (keys, args) = arguments(c.args)?;
    let sha = digest(c.args.at(1));
    with_interpreter(c, |interpreter, c| {
        let (script, is_new) = find_or_compile(interpreter, &sha, c, |c| {
            Ok(Arc::new(Script::new(&sha, c.args.at(1))?))
        })?;
        if is_new {
            let len_max = c.server.settings.config().script_cache_max;
            script.note_use(c.now);
            c.server.scripts.add(sha, &script, len_max);
        }
        run(interpreter, &script, keys, args, read_only, c)
    })
}

fn evalsha_as(c: &mut Context<'_>, read_only: bool) -> Outcome {
    if c.args[1].len() != DIGEST_LEN {
        return Err(NO_SCRIPT);
    }
    let (keys, args) = arguments(c.args)?;
    let sha = parse_digest(c.args.at(1)).ok_or(NO_SCRIPT)?;
    with_interpreter(c, |interpreter, c| {
        let (script, _) = find_or_compile(interpreter, &sha, c, |_| Err(NO_SCRIPT))?;
        run(interpreter, &script, keys, args, read_only, c)
    })
}

/// Finds a script by its digest in the interpreter or in the server's cache, or makes it, and compiles it if the
/// interpreter lacks it. Returns the script, and whether it was made.
fn find_or_compile(
    interpreter: &mut dyn Interpreter,
    sha: &Sha,
    c: &Context<'_>,
    make: impl FnOnce(&Context<'_>) -> Result<Arc<Script>, Failure>,
) -> Result<(Arc<Script>, bool), Failure> {
    if let Some(script) = interpreter.find(sha, &c.server.scripts) {
        return Ok((script, false));
    }
    let known = c.server.scripts.find(sha);
    let is_new = known.is_none();
    let script = known.map_or_else(|| make(c), Ok)?;
    interpreter.compile(sha, &script)?;
    Ok((script, is_new))
}

/// Runs `f` with the thread's interpreter. The first call on a thread creates the interpreter.
fn with_interpreter(
    c: &mut Context<'_>,
    f: impl FnOnce(&mut dyn Interpreter, &mut Context<'_>) -> Outcome,
) -> Outcome {
    let mut interpreter = match c.locals.interpreter.take() {
        Some(interpreter) => interpreter,
        None => (c.locals.new_interpreter)(&c.server.settings.config(), &c.server.scripts)?,
    };
    let (last, database) = (c.client.last, c.client.database);
    let long_values = std::mem::take(&mut c.locals.long_values);
    let outcome = f(&mut *interpreter, c);
    c.store.set_hold_info(HoldInfo::default());
    c.locals.long_values = long_values;
    c.client.last = last;
    // A script's SELECT must not affect the client.
    super::database::go_to(c, database);
    if !interpreter.is_spent() {
        c.locals.interpreter = Some(interpreter);
    }
    outcome
}

/// Runs a script with its keys held, or with the entire store held if the script may use other keys.
fn run(
    interpreter: &mut dyn Interpreter,
    script: &Arc<Script>,
    keys: ArgsView<'_>,
    args: ArgsView<'_>,
    read_only: bool,
    c: &mut Context<'_>,
) -> Outcome {
    if read_only && script.writes {
        return Err(Failure::text(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    if script.no_cluster && c.server.cluster.is_some() {
        return Err(Failure::text("ERR Can not run script on cluster, 'no-cluster' flag is set."));
    }
    // As in Redis, a script with flags counts as a write as a whole, unless they say that it writes nothing.
    if script.writes
        && !c.client.is_of_primary()
        && let Some(why) = c.server.replication.refuses_writes()
    {
        return Err(Failure::Refused(why));
    }
    script.note_use(c.now);
    let client = monitors::From::Client(&c.client.shared);
    // MONITOR must show the script before the commands that the script calls.
    let spec = lookup(c.args.at(0)).expect("only known commands run");
    c.server.push.monitors.show_always(spec, c.args, client, &c.server.settings);
    let read_only = read_only || script.no_writes;
    let run = Run { keys, args, read_only, in_one_slot: script.in_one_slot, has_all: true };
    // Memory must be freed before the hold: a session that holds keys never evicts. If this fails, the script's writes
    // are refused.
    match c.store.admit() {
        _ if script.allows_oom => {
            c.admitted(usize::MAX, |c| run_holding(interpreter, script, run, c))
        }
        Err(refused) if script.writes => Err(refused.into()),
        _ => run_holding(interpreter, script, run, c),
    }
}

/// Takes the keys, or the entire store, and runs the script.
fn run_holding(
    interpreter: &mut dyn Interpreter,
    script: &Arc<Script>,
    all: Run<'_>,
    c: &mut Context<'_>,
) -> Outcome {
    let some = Run { has_all: false, ..all };
    let ended = match (c.store.is_alone(), script.is_declared()) {
        (true, _) => run_held(interpreter, script, all, c)?,
        (false, false) => alone(c, |c| run_held(interpreter, script, all, c))?,
        (false, true) if all.keys.is_empty() => run_held(interpreter, script, some, c)?,
        (false, true) => {
            let keys: Vec<&[u8]> = all.keys.iter().collect();
            c.store.prefetch(&mut keys.iter().map(Key::from).collect::<Vec<_>>());
            c.alone(&keys, |c| run_held(interpreter, script, some, c))?
        }
    };
    match ended {
        Ended::Replied => c.check_reply_len(),
        Ended::NeedsAll => run_again_with_all(script, all, c),
    }
}

/// Runs a script whose keys are held. The script's time begins here: the wait for the keys and earlier requests of the
/// batch do not count.
fn run_held(
    interpreter: &mut dyn Interpreter,
    script: &Arc<Script>,
    run: Run<'_>,
    c: &mut Context<'_>,
) -> Result<Ended, Failure> {
    if c.store.is_displaced() {
        return Err(StoreError::Displaced.into());
    }
    c.store.set_hold_info(HoldInfo { label: HOLDER, since_ms: clock::unix_ms() });
    interpreter.run(script, run, c)
}

/// Runs `f` with the entire store held.
fn alone<R>(c: &mut Context<'_>, f: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let result = c.alone(&[], f);
    shown::note_all(c.store);
    result
}

/// Runs a script from its beginning with the entire store held, because its first run ended at an undeclared key.
fn run_again_with_all(script: &Arc<Script>, run: Run<'_>, c: &mut Context<'_>) -> Outcome {
    let sha = parse_digest(script.name.as_bytes()).expect("the name of a script is its digest");
    with_interpreter(c, |interpreter, c| {
        interpreter.compile(&sha, script)?;
        alone(c, |c| run_held(interpreter, script, run, c))?;
        c.check_reply_len()
    })
}

pub(crate) fn load(c: &mut Context<'_>) -> Outcome {
    let text = c.args.at(2);
    let sha = digest(text);
    with_interpreter(c, |interpreter, c| {
        let make = |_: &Context<'_>| Ok(Arc::new(Script::new(&sha, text)?));
        let (script, _) = find_or_compile(interpreter, &sha, c, make)?;
        c.server.scripts.load(sha, script, c.server.settings.config().script_cache_max)
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

/// SCRIPT FLUSH. ASYNC and SYNC are the same, because the removal never blocks a client.
pub(crate) fn flush(c: &mut Context<'_>) -> Outcome {
    if c.args.len() > 3 || c.args.get(2).is_some_and(|word| !is_flush_mode(word)) {
        return Err(Failure::text("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    c.server.scripts.clear();
    c.reply.ok();
    Ok(())
}

pub(crate) fn kill(c: &mut Context<'_>) -> Outcome {
    match c.server.scripts.kill() {
        Kill::Killed => {
            c.reply.ok();
            Ok(())
        }
        Kill::TooLate => Err(Failure::text(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. It ends at \
             lua-time-limit.",
        )),
        Kill::Nothing => Err(Failure::text("NOTBUSY No scripts in execution right now.")),
    }
}
