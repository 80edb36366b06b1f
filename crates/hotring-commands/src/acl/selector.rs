//! A selector: a set of rules about the commands, keys and channels that a user may use. A user has one root selector
//! and may have more. A request is allowed if a single selector allows all of it.

use hotring_protocol::{ArgsView, glob_match};

use super::ChannelKind;
use super::{Denied, RuleError};
use crate::table::{
    Access as KeyAccess, COMMAND_IDS, Categories, CommandId, Flags, Spec, is_redis_command,
    lookup_full, specs, subcommands,
};

/// The rights that one set of rules gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    commands: CommandSet,
    /// The rules about commands start from all commands, and not from none.
    starts_from_all: bool,
    /// The further rules about commands, in order.
    rules: Vec<String>,
    /// Commands that are allowed only with this first argument.
    first_args: Vec<(CommandId, Box<[u8]>)>,
    keys: Patterns<KeyPattern>,
    channels: Patterns<Box<[u8]>>,
}

/// Patterns of allowed names: all names, or names that match one of the patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Patterns<P> {
    All,
    Of(Vec<P>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    read: bool,
    write: bool,
}

impl KeyPattern {
    /// Parses `~pattern`, `%R~pattern`, `%W~pattern` or `%RW~pattern`.
    fn parse(rule: &[u8]) -> Option<Self> {
        let tilde = rule.iter().position(|byte| *byte == b'~')?;
        let (letters, pattern) = (&rule[..tilde], &rule[tilde + 1..]);
        let (mut read, mut write) = (letters.is_empty(), letters.is_empty());
        if let Some(letters) = letters.strip_prefix(b"%") {
            for letter in letters {
                match letter.to_ascii_uppercase() {
                    b'R' if !read => read = true,
                    b'W' if !write => write = true,
                    _ => return None,
                }
            }
        }
        let pattern: Box<[u8]> = pattern.into();
        (read || write).then_some(KeyPattern { pattern, read, write })
    }

    fn allows(&self, key: &[u8], access: KeyAccess) -> bool {
        (self.read || !access.reads())
            && (self.write || !access.writes())
            && glob_match(&self.pattern, key)
    }

    fn text(&self) -> Vec<u8> {
        let prefix: &[u8] = match (self.read, self.write) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        };
        [prefix, &self.pattern].concat()
    }
}

impl Selector {
    /// A selector that allows nothing.
    pub(super) fn new() -> Self {
        Selector {
            commands: CommandSet::EMPTY,
            starts_from_all: false,
            rules: Vec::new(),
            first_args: Vec::new(),
            keys: Patterns::Of(Vec::new()),
            channels: Patterns::Of(Vec::new()),
        }
    }

    /// Parses the rules between the parentheses of an additional selector.
    pub(super) fn parse(rules: &[u8]) -> Result<Self, RuleError> {
        let mut selector = Selector::new();
        let mut words = rules.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.try_for_each(|rule| selector.apply(rule))?;
        Ok(selector)
    }

    /// Whether the selector allows everything.
    pub(super) fn allows_all(&self) -> bool {
        self.commands.is_full() && self.keys == Patterns::All && self.channels == Patterns::All
    }

    /// Applies one rule about commands, keys or channels.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.keys = Patterns::All,
            b"resetkeys" => self.keys = Patterns::Of(Vec::new()),
            b"allchannels" | b"&*" => self.channels = Patterns::All,
            b"resetchannels" => self.channels = Patterns::Of(Vec::new()),
            b"allcommands" | b"+@all" => self.start_from(true),
            b"nocommands" | b"-@all" => self.start_from(false),
            lower => match (rule, lower) {
                ([b'~' | b'%', ..], _) => self.add_keys(rule)?,
                ([b'&', channel @ ..], _) => self.add_channel(channel)?,
                ([b'+', ..], [_, b'@', category @ ..]) => self.set_category(category, true)?,
                ([b'-', ..], [_, b'@', category @ ..]) => self.set_category(category, false)?,
                ([b'+', ..], [_, name @ ..]) => self.allow(name)?,
                ([b'-', ..], [_, name @ ..]) => self.forbid(name)?,
                _ => return Err(RuleError::Syntax),
            },
        }
        Ok(())
    }

    fn start_from(&mut self, all: bool) {
        self.commands = if all { CommandSet::FULL } else { CommandSet::EMPTY };
        self.starts_from_all = all;
        self.rules.clear();
        self.first_args.clear();
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let Patterns::Of(patterns) = &mut self.keys else { return Err(RuleError::AllKeys) };
        let new = KeyPattern::parse(rule).ok_or(RuleError::Syntax)?;
        if has_spaces(&new.pattern) {
            return Err(RuleError::Syntax);
        }
        match patterns.iter_mut().find(|old| old.pattern == new.pattern) {
            Some(old) => (old.read, old.write) = (old.read || new.read, old.write || new.write),
            None => patterns.push(new),
        }
        Ok(())
    }

    fn add_channel(&mut self, channel: &[u8]) -> Result<(), RuleError> {
        let Patterns::Of(patterns) = &mut self.channels else {
            return Err(RuleError::AllChannels);
        };
        if has_spaces(channel) {
            return Err(RuleError::Syntax);
        }
        if !patterns.iter().any(|old| **old == *channel) {
            patterns.push(channel.into());
        }
        Ok(())
    }

    fn set_category(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        let category = Categories::named(name).ok_or(RuleError::UnknownName)?;
        for spec in specs().filter(|spec| spec.categories().contains(category)) {
            self.set_command(spec, allow);
        }
        self.note(allow, &[&b"@"[..], name].concat());
        Ok(())
    }

    /// Keeps a rule about a command that only Redis has. Such a rule has no effect.
    fn note_foreign(&mut self, name: &[u8], allow: bool) -> Result<(), RuleError> {
        if !is_redis_command(name) {
            return Err(RuleError::UnknownName);
        }
        self.note(allow, &name.to_ascii_lowercase());
        Ok(())
    }

    /// Applies `+name`, `+name|subcommand`, or `+name|first-argument` of a command without subcommands.
    fn allow(&mut self, name: &[u8]) -> Result<(), RuleError> {
        if let Some(bar) = name.iter().rposition(|byte| *byte == b'|') {
            let Some(parent) = lookup_full(&name[..bar]) else {
                return self.note_foreign(name, true);
            };
            let word = &name[bar + 1..];
            if parent.parent.is_some() {
                return Err(RuleError::NoFirstArg);
            }
            if word.is_empty() {
                return Err(RuleError::Syntax);
            }
            if subcommands(parent.id).next().is_none() {
                let allowed = (parent.id, word.into());
                if !self.first_args.contains(&allowed) {
                    self.first_args.push(allowed);
                }
                self.note(true, name);
                return Ok(());
            }
        }
        let Some(spec) = lookup_full(name) else { return self.note_foreign(name, true) };
        self.set_command(spec, true);
        self.note(true, spec.name.as_bytes());
        Ok(())
    }

    fn forbid(&mut self, name: &[u8]) -> Result<(), RuleError> {
        let Some(spec) = lookup_full(name) else { return self.note_foreign(name, false) };
        self.set_command(spec, false);
        self.note(false, spec.name.as_bytes());
        Ok(())
    }

    fn set_command(&mut self, spec: &Spec, allow: bool) {
        self.commands.set(spec.id, allow);
        self.first_args.retain(|(id, _)| *id != spec.id);
        subcommands(spec.id).for_each(|sub| self.commands.set(sub.id, allow));
    }

    /// Keeps a rule for display, and drops the rules that it overrides.
    fn note(&mut self, allow: bool, name: &[u8]) {
        let name = String::from_utf8_lossy(name);
        let is_part = |rule: &str| rule.strip_prefix(&*name).is_some_and(|r| r.starts_with('|'));
        self.rules.retain(|rule| rule[1..] != *name && !is_part(&rule[1..]));
        self.rules.push(format!("{}{name}", if allow { '+' } else { '-' }));
    }

    /// Checks whether the request may run. The error names the first forbidden argument.
    pub(super) fn check(&self, spec: &Spec, args: ArgsView<'_>) -> Result<(), Denied> {
        if !self.allows_command(spec, args) {
            return Err(Denied::Command);
        }
        if let Patterns::Of(patterns) = &self.keys {
            for (position, access) in spec.uses_of(args) {
                let key = args.at(position);
                if !patterns.iter().any(|pattern| pattern.allows(key, access)) {
                    return Err(Denied::Key(position));
                }
            }
        }
        let (kind, positions) = match spec.id {
            CommandId::Publish => (ChannelKind::Channel, 1..2),
            CommandId::SPublish => (ChannelKind::Shard, 1..2),
            CommandId::SSubscribe => (ChannelKind::Shard, 1..args.len()),
            CommandId::Subscribe => (ChannelKind::Channel, 1..args.len()),
            CommandId::PSubscribe => (ChannelKind::Pattern, 1..args.len()),
            _ => return Ok(()),
        };
        let mut positions = positions;
        match positions.find(|position| !self.allows_channel(kind, args.at(*position))) {
            Some(position) => Err(Denied::Channel(position)),
            None => Ok(()),
        }
    }

    fn allows_command(&self, spec: &Spec, args: ArgsView<'_>) -> bool {
        let first_arg_fits = |(id, word): &(CommandId, Box<[u8]>)| {
            *id == spec.id && args.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(word))
        };
        spec.flags.contains(Flags::NO_AUTH)
            || self.commands.has(spec.id)
            || self.first_args.iter().any(first_arg_fits)
    }

    /// Whether some allowed command may read the value of this key. Commands that only test for existence do not count,
    /// nor do scripts, which may do no more than the commands that they call.
    pub(super) fn allows_reading(&self, key: &[u8]) -> bool {
        let is_allowed = match &self.keys {
            Patterns::All => true,
            Patterns::Of(of) => of.iter().any(|p| p.read && glob_match(&p.pattern, key)),
        };
        let reads = |spec: &Spec| {
            spec.keys.iter().any(|keys| keys.access.reads() && keys.access != KeyAccess::Script)
        };
        is_allowed && specs().any(|spec| self.commands.has(spec.id) && reads(spec))
    }

    /// Whether the key rules allow reading every key.
    pub(super) fn reads_all(&self) -> bool {
        match &self.keys {
            Patterns::All => true,
            Patterns::Of(of) => of.iter().any(|p| p.read && *p.pattern == *b"*"),
        }
    }

    /// Whether a subscription to this name is allowed. A pattern must be literally equal to one of the allowed
    /// patterns.
    pub(super) fn allows_channel(&self, kind: ChannelKind, name: &[u8]) -> bool {
        match (&self.channels, kind) {
            (Patterns::All, _) => true,
            (Patterns::Of(of), ChannelKind::Pattern) => of.iter().any(|p| **p == *name),
            (Patterns::Of(of), ChannelKind::Channel | ChannelKind::Shard) => {
                of.iter().any(|p| glob_match(p, name))
            }
        }
    }

    /// The rules about commands, as arguments of ACL SETUSER.
    pub(super) fn command_rules(&self) -> String {
        let start = if self.starts_from_all { "+@all" } else { "-@all" };
        let mut text = start.to_string();
        for rule in &self.rules {
            text.push(' ');
            text.push_str(rule);
        }
        text
    }

    /// The rules about keys, separated by spaces.
    pub(super) fn key_rules(&self) -> Vec<u8> {
        match &self.keys {
            Patterns::All => b"~*".to_vec(),
            Patterns::Of(patterns) => joined(patterns.iter().map(KeyPattern::text)),
        }
    }

    /// The rules about channels, separated by spaces.
    pub(super) fn channel_rules(&self) -> Vec<u8> {
        match &self.channels {
            Patterns::All => b"&*".to_vec(),
            Patterns::Of(patterns) => joined(patterns.iter().map(|p| [&b"&"[..], p].concat())),
        }
    }

    /// All rules, as in a line of an ACL file.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut parts = vec![self.key_rules()];
        if self.channels != Patterns::All {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.channel_rules());
        parts.push(self.command_rules().into_bytes());
        joined(parts.into_iter().filter(|part| !part.is_empty()))
    }
}

fn joined(parts: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    parts.collect::<Vec<_>>().join(&b' ')
}

/// Whether the text contains separators, so that a line of an ACL file cannot hold it as one word.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    // The vertical tab is whitespace in C, but not in Rust.
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

/// A set of commands and subcommands, with one bit for each ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommandSet([u64; WORDS]);

const WORDS: usize = COMMAND_IDS.div_ceil(64);

impl CommandSet {
    const EMPTY: Self = CommandSet([0; WORDS]);
    const FULL: Self = CommandSet([u64::MAX; WORDS]);

    fn has(self, id: CommandId) -> bool {
        let id = id as usize;
        self.0[id / 64] >> (id % 64) & 1 == 1
    }

    fn set(&mut self, id: CommandId, member: bool) {
        let id = id as usize;
        let bit = 1 << (id % 64);
        if member {
            self.0[id / 64] |= bit;
        } else {
            self.0[id / 64] &= !bit;
        }
    }

    /// Whether the set contains all commands. Bits that belong to no command are never cleared in a full set.
    fn is_full(self) -> bool {
        self == Self::FULL
    }
}
