//! COMMAND and the HELP subcommands: descriptions of the commands, for clients and people.

use hotring_protocol::glob_match;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::{
    CommandError, Flags, Spec, command_docs, command_info, commands, lookup, lookup_full, resolve,
    subcommands,
};

pub(crate) fn command(c: &mut Context<'_>) -> Outcome {
    c.reply.array(commands().len());
    for spec in commands() {
        command_info(spec, &mut c.reply);
    }
    Ok(())
}

pub(crate) fn count(c: &mut Context<'_>) -> Outcome {
    c.reply.int(commands().len() as i64);
    Ok(())
}

pub(crate) fn info(c: &mut Context<'_>) -> Outcome {
    if c.args.len() == 2 {
        return command(c);
    }
    c.reply.array(c.args.len() - 2);
    for name in c.args.tail(2).iter() {
        match lookup_full(name) {
            Some(spec) => command_info(spec, &mut c.reply),
            None => c.reply.null(),
        }
        c.check_reply_len()?;
    }
    Ok(())
}

pub(crate) fn docs(c: &mut Context<'_>) -> Outcome {
    let named: Vec<&Spec> = match c.args.len() {
        2 => commands().iter().collect(),
        _ => c.args.tail(2).iter().filter_map(lookup_full).collect(),
    };
    c.reply.map(named.len());
    for spec in named {
        command_docs(spec, &mut c.reply);
        c.check_reply_len()?;
    }
    Ok(())
}

pub(crate) fn list(c: &mut Context<'_>) -> Outcome {
    let names: Vec<&str> = match c.args.len() {
        2 => everything().map(|spec| spec.name).collect(),
        5 if c.args[2].eq_ignore_ascii_case(b"filterby") => filtered(&c.args[3], c.args.at(4))?,
        _ => return Err(Failure::Syntax),
    };
    c.reply.array(names.len());
    for name in names {
        c.reply.bulk(name.as_bytes());
    }
    Ok(())
}

/// All commands, each followed by its subcommands.
fn everything() -> impl Iterator<Item = &'static Spec> {
    commands().iter().flat_map(|spec| std::iter::once(spec).chain(subcommands(spec.id)))
}

/// The names of the commands that pass a filter of COMMAND LIST.
fn filtered(by: &[u8], wanted: &[u8]) -> Result<Vec<&'static str>, Failure> {
    let wanted = wanted.to_ascii_lowercase();
    let passes: Box<dyn Fn(&Spec) -> bool> = match by.to_ascii_lowercase().as_slice() {
        // hotring has no modules, so no command belongs to one.
        b"module" => Box::new(|_| false),
        b"aclcat" => Box::new(move |spec| {
            let same = |name: &str| name.trim_start_matches('@').as_bytes() == wanted;
            spec.categories().names().any(same)
        }),
        b"pattern" => Box::new(move |spec| glob_match(&wanted, spec.name.as_bytes())),
        _ => return Err(Failure::Syntax),
    };
    Ok(everything().filter(|spec| passes(spec)).map(|spec| spec.name).collect())
}

/// Replies to COMMAND GETKEYS; GETKEYSANDFLAGS adds the kind of access to each key.
pub(crate) fn getkeys(c: &mut Context<'_>) -> Outcome {
    write_keys(c, false)
}

pub(crate) fn getkeysandflags(c: &mut Context<'_>) -> Outcome {
    write_keys(c, true)
}

fn write_keys(c: &mut Context<'_>, with_flags: bool) -> Outcome {
    let request = c.args.tail(2);
    let invalid = Failure::text("ERR Invalid command specified");
    let spec = match resolve(request) {
        Ok(spec) => spec,
        Err(CommandError::WrongArity(_)) => {
            return Err(Failure::text("ERR Invalid number of arguments specified for command"));
        }
        Err(_) => return Err(invalid),
    };
    let uses: Vec<_> = spec.uses_of(request).collect();
    if uses.is_empty() && !spec.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Err(Failure::text("ERR The command has no key arguments"));
    }
    c.reply.array(uses.len());
    for (position, access) in uses {
        if with_flags {
            c.reply.array(2);
        }
        c.reply.bulk(request.at(position));
        if with_flags {
            c.reply.set(access.names().len());
            access.names().iter().for_each(|name| c.reply.simple(name));
        }
    }
    Ok(())
}

/// HELP of a command with subcommands: for each, one line for the syntax and one for the meaning.
pub(crate) fn help(c: &mut Context<'_>) -> Outcome {
    let parent = lookup(c.args.at(0)).expect("the request has been resolved by its name");
    let mut lines = vec![format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        parent.name.to_ascii_uppercase()
    )];
    for sub in subcommands(parent.id) {
        let name = sub.own_name().to_ascii_uppercase();
        lines.push(format!("{name} {}", sub.syntax).trim_end().to_string());
        lines.push(format!("    {}", sub.summary));
    }
    c.reply.array(lines.len());
    for line in lines {
        c.reply.simple(&line);
    }
    Ok(())
}

/// The handler of a command that only contains subcommands. It never runs: the command alone has too few arguments,
/// which are refused earlier.
pub(crate) fn holder(_: &mut Context<'_>) -> Outcome {
    Err(Failure::text(ONLY_HOLDS))
}

/// The error of [`holder`]; no request gets it.
pub(crate) const ONLY_HOLDS: &str = "ERR this command only holds subcommands";
