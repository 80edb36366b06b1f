//! `redis.call`: runs a command of the server for a script.

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

use hotring_cluster::{Slot, slot_of};
use hotring_protocol::{ArgsView, KeptArgs, Part, read_part};
use mlua::{Error, Lua, Value};

use super::args::{Bounded, each};
use super::redis::Raised;
use super::state::{State, Stop, exempt, stopped};
use super::values;
use crate::acl::Origin;
use crate::commands::answer::{answer, deny};
use crate::state::client::Closing;
use crate::state::context::Context;
use crate::state::interpreter::Run;
use crate::state::monitors;
use crate::state::notify;
use crate::state::routes::{Misplaced, NOBODY, UNANSWERED};
use crate::state::tracking;
use crate::table::{CommandError, CommandId, Flags, Group, Spec, resolve};

/// Runs commands for one run of a script.
pub(super) struct Caller<'a, 'c> {
    run: Run<'a>,
    /// The keys that the script was given, sorted.
    keys: Vec<&'a [u8]>,
    /// The slot of all keys so far, in a cluster.
    slot: Cell<Option<Slot>>,
    state: &'a Rc<State>,
    request: &'a mut KeptArgs,
    reply: &'a mut Vec<u8>,
    context: &'a mut Context<'c>,
}

/// The reason that a command has not run. The script can catch the error.
enum Refusal {
    /// The arguments are no request. Not counted.
    NotAsked(&'static str),
    /// The command must not run. Counted as any error of a command.
    Rejected(Cow<'static, str>),
}

impl<'a, 'c> Caller<'a, 'c> {
    pub(super) fn new(
        run: Run<'a>,
        state: &'a Rc<State>,
        request: &'a mut KeptArgs,
        reply: &'a mut Vec<u8>,
        context: &'a mut Context<'c>,
    ) -> Self {
        let mut keys: Vec<&[u8]> = run.keys.iter().collect();
        keys.sort_unstable();
        let slot =
            context.locals.routes.as_ref().and_then(|_| keys.first().map(|key| slot_of(key)));
        Caller { run, keys, slot: Cell::new(slot), state, request, reply, context }
    }

    /// Runs a command. Returns its reply as a Lua value, or raises its error.
    pub(super) fn call(&mut self, lua: &Lua, args: &Bounded) -> mlua::Result<Value> {
        if self.state.stopped().is_some() {
            return Err(stopped());
        }
        let raise = |error: Raised| Err(Error::external(error));
        match self.execute(args)? {
            Err(Refusal::NotAsked(why)) => return raise(Raised::Reply(why.into())),
            Err(Refusal::Rejected(why)) => return raise(Raised::Counted(why.as_bytes().into())),
            Ok(()) => {}
        }
        match read_part(&mut &self.reply[..]) {
            Some(Part::Error(text)) => raise(Raised::Counted(text.to_vec())),
            _ => exempt(lua, self.reply.len(), || values::from_reply(lua, self.reply)),
        }
    }

    /// Runs the command. On success its reply is in `self.reply`.
    fn execute(&mut self, args: &Bounded) -> mlua::Result<Result<(), Refusal>> {
        self.request.clear();
        let mut args = each(args).peekable();
        if args.peek().is_none() {
            return Ok(Err(Refusal::NotAsked(NO_COMMAND)));
        }
        if !args.all(|arg| values::add_argument(arg, self.request)) {
            return Ok(Err(Refusal::NotAsked(BAD_ARGUMENT)));
        }
        self.request.end();
        let spec = match self.resolve() {
            Ok(spec) => spec,
            Err((spec, why)) => return Ok(Err(self.reject(spec, why))),
        };
        if !self.is_held(spec) {
            self.state.set_wide();
            if !self.run.has_all {
                if !self.state.has_written() {
                    self.state.stop(Stop::NeedsAll);
                    return Err(stopped());
                }
                return Ok(Err(self.reject(Some(spec), UNDECLARED.into())));
            }
        }
        if writes(spec) && !self.state.write() {
            return Err(stopped());
        }
        self.answer(spec);
        Ok(Ok(()))
    }

    /// Finds the command. The error says why it must not run, and names the command if it exists.
    fn resolve(&self) -> Result<&'static Spec, (Option<&'static Spec>, Cow<'static, str>)> {
        let request = self.request.iter().next().expect("one request was put together");
        let spec = resolve(request).map_err(|error| match error {
            CommandError::WrongArity(spec) => {
                (Some(spec), "ERR Wrong number of args calling Redis command from script".into())
            }
            _ => (None, "ERR Unknown Redis command called from script".into()),
        })?;
        // A script must not change how later requests of its connection are answered.
        let is_of_connection = matches!(spec.id, CommandId::ReadOnly | CommandId::ReadWrite);
        if is_of_connection || spec.flags.contains(Flags::NOSCRIPT) {
            let why = "ERR This Redis command is not allowed from script";
            return Err((Some(spec), why.into()));
        }
        let Context { client, server, .. } = &*self.context;
        if let Err(denied) = client.access().check(spec, request) {
            let why = deny(denied, spec, request, client, server, Origin::Script);
            let why = why.strip_prefix("NOPERM ").unwrap_or(&why);
            return Err((Some(spec), format!("ERR ACL failure in script: {why}").into()));
        }
        if spec.flags.contains(Flags::WRITE)
            && let Some(why) = server.replication.refuses_writes()
        {
            return Err((Some(spec), why.into()));
        }
        if self.run.read_only && writes(spec) {
            let why = "ERR Write commands are not allowed from read-only scripts.";
            return Err((Some(spec), why.into()));
        }
        match self.misplaced(spec, request) {
            Some(why) => Err((Some(spec), why.into())),
            None => Ok(spec),
        }
    }

    /// The error of a command whose keys this node of a cluster does not serve, or not now, or not in this script.
    fn misplaced(&self, spec: &Spec, request: ArgsView<'_>) -> Option<&'static str> {
        let Context { client, locals, .. } = &*self.context;
        let routes = locals.routes.as_ref().filter(|_| !client.is_of_primary())?;
        let slot = match routes.place(spec, request, client) {
            Ok(slot) => slot,
            Err(Misplaced::Unanswered) => return Some(UNANSWERED),
            Err(_) => return Some(NOT_LOCAL),
        };
        if let Some(slot) = slot {
            let before = self.slot.replace(self.slot.get().or(Some(slot)));
            let is_other = before.is_some_and(|before| before != slot);
            if is_other && self.run.in_one_slot {
                return Some(ACROSS);
            }
        }
        // Its declared keys were looked at before it began. Whoever sent it has not dropped others.
        routes.must_wait(spec, request, client, NOBODY).then_some(MOVING)
    }

    /// Counts a rejected command, and returns the refusal.
    fn reject(&self, spec: Option<&Spec>, why: Cow<'static, str>) -> Refusal {
        let counters = self.context.counters;
        if let Some(spec) = spec {
            counters.by_command.reject(spec.id as usize);
        }
        counters.error(&why);
        Refusal::Rejected(why)
    }

    /// Whether the script declared all keys of the command, so that they are held.
    fn is_held(&self, spec: &Spec) -> bool {
        let request = self.request.iter().next().expect("one request was put together");
        let is_given = |key: &[u8]| self.keys.binary_search(&key).is_ok();
        let leaves = spec.may_touch_any_key() || spec.may_leave_database(request.len());
        !leaves && spec.keys_of(request).all(is_given)
    }

    fn answer(&mut self, spec: &'static Spec) {
        let Caller { request, reply, context, state, .. } = self;
        reply.clear();
        context.counters.commands.add(1);
        let args = request.iter().next().expect("one request was put together");
        // The script's entire reply is limited to this length, so the reply of one command may be, too.
        let len_max = context.reply_left();
        let mut inner = context.inner(args, reply, state.version(), len_max);
        tracking::before(spec, args, inner.client, &inner.server.push.tracking);
        inner.client.runs_script = true;
        answer(spec, &mut inner);
        inner.client.runs_script = false;
        if inner.store.origin().records_changes {
            notify::notify_changes(
                spec,
                inner.store,
                inner.server,
                &inner.server.settings.config(),
            );
        }
        inner.server.push.monitors.show(
            spec,
            args,
            monitors::From::Script(inner.client.database),
            &inner.server.settings,
        );
        let client = &mut *context.client;
        if client.closing == Some(Closing::OutputLimit) {
            client.closing = None;
            reply.clear();
            reply.extend_from_slice(b"-ERR the reply is longer than output-buffer-hard-limit\r\n");
        }
    }
}

const NO_COMMAND: &str = "ERR Please specify at least one argument for this redis lib call";
const BAD_ARGUMENT: &str = "ERR Lua redis lib command arguments must be strings or integers";

const ACROSS: &str = "ERR Script attempted to access keys that do not hash to the same slot";
const MOVING: &str = "TRYAGAIN Script attempted to write a key that is being moved to another node";
const NOT_LOCAL: &str = "ERR Script attempted to access a non local key in a cluster node";

/// Occurs only if the analysis of the script's text was wrong. Redis has no such error, because a script always has all
/// keys there.
const UNDECLARED: &str = "ERR Script uses a key that is not among KEYS, after it has written; this once. \
     Run it again, or declare the key";

/// Whether the command has effects that other clients see.
fn writes(spec: &Spec) -> bool {
    spec.flags.contains(Flags::WRITE) || spec.group == Group::PubSub
}
