//! Commands about the connection itself: PING, ECHO, HELLO, AUTH, QUIT, RESET.

use std::time::Duration;

use hotring_protocol::{Version, parse_i64};

use super::client::check_label;
use super::database;
use super::pubsub::leave_all;
use crate::acl::{Access, Origin, Reason};
use crate::commands::answer::note_denial;
use crate::state::client::{Closing, Labels, Replies};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::quoted;

/// The Redis version that hotring reports to clients.
pub const REDIS_VERSION: &str = "7.4.0";

/// Redis's error for AUTH with a password when no password is set.
const NO_PASSWORD: Failure = Failure::text(
    "ERR AUTH <password> called without any password configured for the default user. \
     Are you sure your configuration is correct?",
);

/// Redis's error for HELLO without credentials when a password is set.
const NO_LOGIN: Failure = Failure::text(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH \
     <user> <pass> option can be used to authenticate the client and select the RESP protocol version at \
     the same time",
);

const WRONG_PASSWORD: Failure =
    Failure::text("WRONGPASS invalid username-password pair or user is disabled.");

pub(crate) fn ping(c: &mut Context<'_>) -> Outcome {
    match c.args.len() {
        1 | 2 if c.client.is_confined() => {
            c.reply.array(2);
            c.reply.bulk(b"pong");
            c.reply.bulk(c.args.get(1).unwrap_or_default());
        }
        1 => c.reply.simple("PONG"),
        2 => c.reply.bulk(&c.args[1]),
        _ => return Err(Failure::Arity("ping".into())),
    }
    Ok(())
}

pub(crate) fn echo(c: &mut Context<'_>) -> Outcome {
    c.reply.bulk(&c.args[1]);
    Ok(())
}

pub(crate) fn quit(c: &mut Context<'_>) -> Outcome {
    c.reply.ok();
    c.client.closing = Some(Closing::Asked);
    Ok(())
}

pub(crate) fn reset(c: &mut Context<'_>) -> Outcome {
    c.client.end_transaction();
    leave_all(c.client, c.server, c.reply.buffer());
    c.client.become_user(Access::new(c.server.acl.default_user()));
    c.client.speak(Version::Resp2, &c.server.acl, c.reply.buffer());
    c.client.want_replies(Replies::All);
    c.client.shared.reads_copies.store(false, std::sync::atomic::Ordering::Relaxed);
    database::go_to(c, 0);
    c.client.shared.relabel(|labels| labels.name = Box::default());
    c.client.shared.no_evict.store(false, std::sync::atomic::Ordering::Relaxed);
    c.client.shared.no_touch.store(false, std::sync::atomic::Ordering::Relaxed);
    c.mark_accesses(true);
    c.reply.simple("RESET");
    Ok(())
}

pub(crate) fn auth(c: &mut Context<'_>) -> Outcome {
    let args = c.args;
    match args.len() {
        2 if c.server.acl.default_user().takes_any_password() => return Err(NO_PASSWORD),
        2 => log_in(c, b"default", args.at(1))?,
        3 => log_in(c, args.at(1), args.at(2))?,
        _ => return Err(Failure::Syntax),
    }
    c.reply.ok();
    Ok(())
}

/// Authenticates a user by name and password. A failure is recorded, and delays every later reply on the connection.
fn log_in(c: &mut Context<'_>, name: &[u8], password: &[u8]) -> Outcome {
    if !c.client.penalty.is_zero() {
        // Only later commands of the same transaction get here. All other requests wait until the delay is over.
        return Err(Failure::text(
            "ERR a wrong password was given just before: this one is not tried",
        ));
    }
    if let Some(user) = c.server.acl.authenticate(name, password) {
        c.client.become_user(Access::authenticated(user));
        return Ok(());
    }
    note_denial(c.client, c.server, Origin::Client, Reason::Auth, c.args.at(0), name);
    c.server.observe.warnings.login(&c.client.shared, &c.server.acl, c.now);
    c.client.penalty += Duration::from_millis(c.server.settings.config().auth_failure_delay_ms);
    Err(WRONG_PASSWORD)
}

/// Lets the connection speak memcached's protocol, with the rights of a memcached client. Replicas send it to their
/// primary.
pub(crate) fn hotring_memcached(c: &mut Context<'_>) -> Outcome {
    c.client.becomes_memcached = true;
    c.reply.ok();
    Ok(())
}

pub(crate) fn hello(c: &mut Context<'_>) -> Outcome {
    let mut version = c.client.version;
    if let Some(wanted) = c.args.get(1) {
        version = match parse_i64(wanted) {
            Some(2) => Version::Resp2,
            Some(3) => Version::Resp3,
            Some(_) => return Err(Failure::text("NOPROTO unsupported protocol version")),
            None => {
                return Err(Failure::text(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        };
    }
    let (mut name, mut login) = (None, None);
    let mut at = 2;
    while let Some(option) = c.args.get(at) {
        let left = c.args.len() - at - 1;
        if option.eq_ignore_ascii_case(b"auth") && left >= 2 {
            login = Some((c.args.at(at + 1), c.args.at(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"setname") && left >= 1 {
            name = Some(check_label("Client names", c.args.at(at + 1))?);
            at += 2;
        } else {
            let option = quoted(option);
            return Err(format!("ERR Syntax error in HELLO option '{option}'").into());
        }
    }
    // All options are valid. Nothing may change before this point.
    if let Some((user, password)) = login {
        log_in(c, user, password)?;
    }
    if c.client.access().is_locked() {
        return Err(NO_LOGIN);
    }
    if let Some(name) = name {
        c.client.shared.relabel(|labels: &mut Labels| labels.name = name.into());
    }
    c.client.speak(version, &c.server.acl, c.reply.buffer());
    let role = if c.server.replication.is_replica() { "replica" } else { "master" };
    let out = c.reply.buffer();
    let mut reply = hotring_protocol::Writer::new(out, version);
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.int(if version == Version::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.int(c.client.shared.id as i64);
    for (field, value) in [("mode", c.server.mode()), ("role", role)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}
