//! ACL: reports and changes users and their permissions.

use std::fmt::Write;

use hotring_protocol::parse_i64;

use crate::acl::Denied;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::{Categories, CommandError, quoted, resolve, specs};

/// Number of ACL LOG entries in a reply when the request gives no count.
const LOG_COUNT_DEFAULT: usize = 10;

/// Length in bits of a password from ACL GENPASS: the default, and the maximum.
const PASSWORD_BITS_DEFAULT: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// The first sentence is Redis's text.
const NO_FILE: Failure = Failure::text(
    "ERR This Redis instance is not configured to use an ACL file. Start the server with the setting \
     aclfile, or make users by ACL SETUSER.",
);

pub(crate) fn whoami(c: &mut Context<'_>) -> Outcome {
    c.reply.bulk(&c.client.access().user().name);
    Ok(())
}

pub(crate) fn users(c: &mut Context<'_>) -> Outcome {
    let users = c.server.acl.users();
    c.reply.array(users.len());
    users.iter().for_each(|user| c.reply.bulk(&user.name));
    c.check_reply_len()
}

pub(crate) fn list(c: &mut Context<'_>) -> Outcome {
    let users = c.server.acl.users();
    c.reply.array(users.len());
    users.iter().for_each(|user| c.reply.bulk(&user.describe()));
    c.check_reply_len()
}

pub(crate) fn getuser(c: &mut Context<'_>) -> Outcome {
    let Some(user) = c.server.acl.user(&c.args[2]) else {
        c.reply.null();
        return Ok(());
    };
    c.reply.map(6);
    c.reply.bulk(b"flags");
    let flags = user.flags();
    c.reply.set(flags.len());
    flags.iter().for_each(|flag| c.reply.bulk(flag.as_bytes()));
    c.reply.bulk(b"passwords");
    let digests = user.password_digests();
    c.reply.array(digests.len());
    digests.iter().for_each(|digest| c.reply.bulk(digest.as_bytes()));
    let selectors = user.selector_rules();
    reply_rules(c, &selectors[0]);
    c.reply.bulk(b"selectors");
    c.reply.array(selectors.len() - 1);
    for rules in &selectors[1..] {
        c.reply.map(rules.len());
        reply_rules(c, rules);
    }
    c.check_reply_len()
}

fn reply_rules(c: &mut Context<'_>, rules: &[Vec<u8>; 3]) {
    for (name, rules) in [&b"commands"[..], b"keys", b"channels"].iter().zip(rules) {
        c.reply.bulk(name);
        c.reply.bulk(rules);
    }
}

pub(crate) fn setuser(c: &mut Context<'_>) -> Outcome {
    let rules: Vec<&[u8]> = c.args.tail(3).iter().collect();
    c.server.acl.set_user(&c.args[2], &rules)?;
    users_changed(c);
    c.reply.ok();
    Ok(())
}

pub(crate) fn deluser(c: &mut Context<'_>) -> Outcome {
    let names: Vec<&[u8]> = c.args.tail(2).iter().collect();
    let removed = c.server.acl.delete(&names).map_err(Failure::text)?;
    users_changed(c);
    c.reply.count(removed);
    Ok(())
}

pub(crate) fn load(c: &mut Context<'_>) -> Outcome {
    let loaded = c.server.load_users().ok_or(NO_FILE)?;
    loaded.map_err(|why| Failure::from(format!("ERR {why}")))?;
    c.client.renew_access(&c.server.acl);
    c.reply.ok();
    Ok(())
}

/// Makes every connection look up its user again. The connection that changed the users does so immediately, because
/// its next request may be in the same batch.
fn users_changed(c: &mut Context<'_>) {
    c.server.users_changed();
    c.client.renew_access(&c.server.acl);
}

pub(crate) fn save(c: &mut Context<'_>) -> Outcome {
    if let Err(error) = c.server.save_users().ok_or(NO_FILE)? {
        tracing::warn!(%error, "cannot write the ACL file");
        return Err(Failure::text(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more \
             information",
        ));
    }
    c.reply.ok();
    Ok(())
}

pub(crate) fn cat(c: &mut Context<'_>) -> Outcome {
    let names: Vec<&str> = match c.args.len() {
        2 => Categories::all_names().collect(),
        3 => {
            let name = &c.args[2];
            let category = Categories::named(name)
                .ok_or_else(|| format!("ERR Unknown category '{}'", quoted(name)))?;
            let fits = specs().filter(|spec| spec.categories().contains(category));
            fits.map(|spec| spec.name).collect()
        }
        _ => return Err(wrong_subcommand(c)),
    };
    c.reply.array(names.len());
    names.iter().for_each(|name| c.reply.bulk(name.as_bytes()));
    Ok(())
}

fn wrong_subcommand(c: &Context<'_>) -> Failure {
    let name = quoted(&c.args[1]);
    format!("ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP.")
        .into()
}

pub(crate) fn genpass(c: &mut Context<'_>) -> Outcome {
    let bits = match c.args.len() {
        2 => PASSWORD_BITS_DEFAULT,
        3 => parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?,
        _ => return Err(wrong_subcommand(c)),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive \
             number up to {PASSWORD_BITS_MAX}"
        )
        .into());
    }
    let digits = bits.unsigned_abs().div_ceil(4) as usize;
    let mut bytes = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::from(format!("ERR no random numbers to be had: {error}")))?;
    let mut password = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(password, "{byte:02x}").expect("writing to a string cannot fail");
    }
    c.reply.bulk(&password.as_bytes()[..digits]);
    Ok(())
}

pub(crate) fn log(c: &mut Context<'_>) -> Outcome {
    let count = match c.args.len() {
        2 => LOG_COUNT_DEFAULT,
        3 if c.args[2].eq_ignore_ascii_case(b"reset") => {
            c.server.acl.log.clear();
            c.reply.ok();
            return Ok(());
        }
        3 => usize::try_from(parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?).unwrap_or(0),
        _ => return Err(wrong_subcommand(c)),
    };
    let entries = c.server.acl.log.latest(count);
    c.reply.array(entries.len());
    for entry in entries {
        c.reply.map(10);
        c.reply.bulk(b"count");
        c.reply.int(entry.count as i64);
        let texts: [(&str, &[u8]); 5] = [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.origin.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
            ("client-info", entry.client.as_bytes()),
        ];
        for (name, text) in texts {
            c.reply.bulk(name.as_bytes());
            c.reply.bulk(text);
            if name == "username" {
                c.reply.bulk(b"age-seconds");
                c.reply.double(c.now.saturating_sub(entry.updated_at) as f64 / 1000.0);
            }
        }
        let numbers = [
            ("entry-id", entry.id),
            ("timestamp-created", entry.created_at),
            ("timestamp-last-updated", entry.updated_at),
        ];
        for (name, number) in numbers {
            c.reply.bulk(name.as_bytes());
            c.reply.int(number as i64);
        }
        c.check_reply_len()?;
    }
    Ok(())
}

pub(crate) fn dryrun(c: &mut Context<'_>) -> Outcome {
    let user = c.server.acl.user(&c.args[2]);
    let user = user.ok_or_else(|| format!("ERR User '{}' not found", quoted(&c.args[2])))?;
    let request = c.args.tail(3);
    let spec = match resolve(request) {
        Ok(spec) => spec,
        Err(error @ CommandError::WrongArity(_)) => return Err(error.to_string().into()),
        Err(_) => return Err(format!("ERR Command '{}' not found", quoted(&request[0])).into()),
    };
    match user.check(spec, request) {
        Ok(()) => c.reply.ok(),
        Err(denied) => {
            let denied_action = match denied {
                Denied::Key(position) => {
                    format!("access the '{}' key", quoted(request.at(position)))
                }
                Denied::Channel(position) => {
                    format!("access the '{}' channel", quoted(request.at(position)))
                }
                _ => format!("run the '{}' command", spec.name),
            };
            let name = String::from_utf8_lossy(&user.name);
            c.reply.bulk(format!("User {name} has no permissions to {denied_action}").as_bytes());
        }
    }
    Ok(())
}
