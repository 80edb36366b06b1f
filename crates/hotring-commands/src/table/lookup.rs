//! Looks up the command of a request by its first words, in a hash table that is built at compile time.

use std::fmt;

use super::{CommandId, Spec, list, subcommands};
use hotring_protocol::{ArgsView, Called};

/// The number of slots in the hash table; more than three times the number of commands.
const SLOTS: usize = 1024;
/// An empty slot.
const FREE: u8 = u8::MAX;
const _: () = assert!(list::COMMANDS.len() < SLOTS / 3);

/// Length of the longest command name.
const NAME_LEN_MAX: usize = {
    let (mut i, mut max) = (0, 0);
    while i < list::COMMANDS.len() {
        if list::COMMANDS[i].name.len() > max {
            max = list::COMMANDS[i].name.len();
        }
        i += 1;
    }
    max
};

/// Whether the command has subcommands, which its first argument names.
#[inline]
pub(super) fn has_subcommands(id: CommandId) -> bool {
    list::PARENTS.get(id as usize) == Some(&true)
}

/// The hash table: indices into the command table, filled at compile time.
static SLOT: [u8; SLOTS] = slots();

const fn slots() -> [u8; SLOTS] {
    let mut slots = [FREE; SLOTS];
    let mut i = 0;
    while i < list::COMMANDS.len() {
        let mut slot = hash(list::COMMANDS[i].name.as_bytes());
        while slots[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = i as u8;
        i += 1;
    }
    slots
}

/// A hash that ignores the case of letters. It need not resist attacks, because no user data is stored by it.
const fn hash(name: &[u8]) -> usize {
    let mut hash = name.len() as u32;
    let mut i = 0;
    while i < name.len() {
        hash = (hash ^ (name[i] | 0x20) as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    (hash ^ hash >> 15) as usize % SLOTS
}

/// Finds a command by its name in any case. Subcommands are found by [`resolve`].
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static Spec> {
    // Do not hash a name that is longer than any command.
    if name.len() > NAME_LEN_MAX {
        return None;
    }
    let mut slot = hash(name);
    loop {
        let spec = list::COMMANDS.get(usize::from(SLOT[slot]))?;
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(spec);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Finds a command by its name, or a subcommand by its full name, such as `client|id`, in any case.
pub fn lookup_full(name: &[u8]) -> Option<&'static Spec> {
    match name.iter().position(|byte| *byte == b'|') {
        None => lookup(name),
        Some(bar) => subcommands(lookup(&name[..bar])?.id)
            .find(|sub| sub.name.as_bytes().eq_ignore_ascii_case(name)),
    }
}

/// Finds the command or subcommand that a request calls, and checks the number of its
/// arguments.
#[inline]
pub fn resolve(request: ArgsView<'_>) -> Result<&'static Spec, CommandError<'_>> {
    let spec = request.get(0).and_then(lookup).ok_or(CommandError::Unknown(request))?;
    let spec = if has_subcommands(spec.id) { subcommand(spec, request)? } else { spec };
    if spec.takes(request.len()) { Ok(spec) } else { Err(CommandError::WrongArity(spec)) }
}

/// [`resolve`] for [`PrefixCache`](hotring_protocol::PrefixCache).
pub fn called(request: ArgsView<'_>) -> Option<Called<&'static Spec>> {
    let spec = resolve(request).ok()?;
    let by_name_alone = spec.parent.is_none() && !has_subcommands(spec.id);
    Some(Called { command: spec, by_name_alone })
}

fn subcommand<'a>(
    spec: &'static Spec,
    request: ArgsView<'a>,
) -> Result<&'static Spec, CommandError<'a>> {
    let Some(name) = request.get(1) else { return Ok(spec) };
    subcommands(spec.id)
        .find(|sub| sub.own_name().as_bytes().eq_ignore_ascii_case(name))
        .ok_or(CommandError::UnknownSubcommand(spec, name))
}

/// The error of a request that calls no command, or has a wrong number of arguments. The text is Redis's reply, error
/// code included.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CommandError<'a> {
    /// No command has this name.
    Unknown(ArgsView<'a>),
    /// The command has no subcommand of this name.
    UnknownSubcommand(&'static Spec, &'a [u8]),
    /// Too many or too few arguments.
    WrongArity(&'static Spec),
}

/// The maximum number of bytes of a request that an error repeats.
const QUOTED_MAX: usize = 128;

impl fmt::Display for CommandError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(request) => {
                let name = request.get(0).unwrap_or_default();
                write!(f, "ERR unknown command '{}', with args beginning with: ", quoted(name))?;
                let mut left = QUOTED_MAX;
                for arg in request.tail(1).iter() {
                    if left == 0 {
                        break;
                    }
                    let shown = &arg[..arg.len().min(left)];
                    write!(f, "'{}' ", quoted(shown))?;
                    left = left.saturating_sub(shown.len() + 3);
                }
                Ok(())
            }
            Self::UnknownSubcommand(spec, name) => write!(
                f,
                "ERR unknown subcommand '{}'. Try {} HELP.",
                quoted(name),
                spec.name.to_ascii_uppercase()
            ),
            Self::WrongArity(spec) => {
                write!(f, "ERR wrong number of arguments for '{}' command", spec.name)
            }
        }
    }
}

impl std::error::Error for CommandError<'_> {}

/// A part of a request for an error text, cut to 128 bytes.
pub fn quoted(text: &[u8]) -> impl fmt::Display {
    String::from_utf8_lossy(&text[..text.len().min(QUOTED_MAX)])
}
