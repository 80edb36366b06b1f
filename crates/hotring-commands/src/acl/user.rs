//! A user: passwords and rights.

use hotring_protocol::ArgsView;

use super::ChannelKind;
use super::password::Digest;
use super::selector::Selector;
use super::{Denied, RuleError};
use crate::table::Spec;

/// A user. Users in use are immutable: a change replaces the user by a new one.
#[derive(Clone, Debug)]
pub(crate) struct User {
    /// The ID, unique among all users ever created, even if they have the same name.
    pub(super) id: u64,
    /// The name, without whitespace.
    pub name: Box<[u8]>,
    is_on: bool,
    /// Any password is accepted.
    nopass: bool,
    /// RESTORE always checks its input; this is kept for ACL LIST and ACL GETUSER.
    sanitize_payload: bool,
    passwords: Vec<Digest>,
    /// The selectors, the root first.
    selectors: Vec<Selector>,
}

impl User {
    /// A user that is off, has no password and has no rights.
    pub(super) fn new(id: u64, name: &[u8]) -> Self {
        User {
            id,
            name: name.into(),
            is_on: false,
            nopass: false,
            sanitize_payload: true,
            passwords: Vec::new(),
            selectors: vec![Selector::new()],
        }
    }

    /// The initial default user, with all rights and without a password.
    pub(super) fn unrestricted(id: u64, name: &[u8]) -> Self {
        let mut user = User::new(id, name);
        for rule in ["on", "nopass", "+@all", "~*", "&*"] {
            user.apply(rule.as_bytes()).expect("these are rules");
        }
        user
    }

    /// Whether connections can be this user without authentication.
    pub(crate) fn is_open(&self) -> bool {
        self.is_on && self.nopass
    }

    /// Whether the user accepts any password.
    pub(crate) fn takes_any_password(&self) -> bool {
        self.nopass
    }

    /// Whether the user is on.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether the user may do everything.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::allows_all)
    }

    /// Whether the user may log in with this password. The time does not depend on whether the password is right.
    pub(super) fn admits(&self, digest: &Digest) -> bool {
        let is_one = self.passwords.iter().fold(false, |found, one| found | one.is(digest));
        self.is_on && (self.nopass || is_one)
    }

    /// Applies one rule of ACL SETUSER.
    pub(super) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"sanitize-payload" => self.sanitize_payload = true,
            b"skip-sanitize-payload" => self.sanitize_payload = false,
            b"nopass" => (self.nopass, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.nopass, self.passwords) = (false, Vec::new()),
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => *self = User::new(self.id, &self.name),
            [b'>' | b'#' | b'<' | b'!', ..] => self.change_passwords(rule)?,
            [b'(', inner @ .., b')'] => {
                let inner = &rule[1..1 + inner.len()];
                self.selectors.push(Selector::parse(inner)?);
            }
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    fn change_passwords(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let (kind, word) = (rule[0], &rule[1..]);
        let digest = match kind {
            b'>' | b'<' => Digest::of(word),
            _ => Digest::parse(word).ok_or(RuleError::BadHash)?,
        };
        let position = self.passwords.iter().position(|one| one.is(&digest));
        match (kind, position) {
            (b'>' | b'#', position) => {
                if position.is_none() {
                    self.passwords.push(digest);
                }
                self.nopass = false;
            }
            (_, Some(position)) => drop(self.passwords.remove(position)),
            (_, None) => return Err(RuleError::NoSuchPassword),
        }
        Ok(())
    }

    /// Checks whether the user may run this request. If no selector allows it, the error is that of the selector whose
    /// checks came furthest.
    pub(crate) fn check(&self, spec: &Spec, args: ArgsView<'_>) -> Result<(), Denied> {
        let mut furthest = Denied::Command;
        for selector in &self.selectors {
            match selector.check(spec, args) {
                Ok(()) => return Ok(()),
                Err(denied) => furthest = furthest.max(denied),
            }
        }
        Err(furthest)
    }

    /// Whether the user may read this key's value by some command.
    pub(crate) fn may_read(&self, key: &[u8]) -> bool {
        self.selectors.iter().any(|selector| selector.allows_reading(key))
    }

    /// Whether the user may run this request even if it reads any key.
    pub(crate) fn may_read_all(&self, spec: &Spec, args: ArgsView<'_>) -> bool {
        self.selectors.iter().any(|s| s.reads_all() && s.check(spec, args).is_ok())
    }

    /// Whether the user may subscribe to this channel or pattern.
    pub(super) fn may_listen(&self, kind: ChannelKind, name: &[u8]) -> bool {
        self.selectors.iter().any(|selector| selector.allows_channel(kind, name))
    }

    /// The user's flags, in Redis's words.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_on { "on" } else { "off" }];
        if self.nopass {
            flags.push("nopass");
        }
        let payload =
            if self.sanitize_payload { "sanitize-payload" } else { "skip-sanitize-payload" };
        flags.push(payload);
        flags
    }

    /// The digests of the user's passwords as hexadecimal digits.
    pub(crate) fn password_digests(&self) -> Vec<String> {
        self.passwords.iter().map(Digest::hex).collect()
    }

    /// The rules of each selector about commands, keys and channels; the root selector first.
    pub(crate) fn selector_rules(&self) -> Vec<[Vec<u8>; 3]> {
        let rules =
            |s: &Selector| [s.command_rules().into_bytes(), s.key_rules(), s.channel_rules()];
        self.selectors.iter().map(rules).collect()
    }

    /// The line of an ACL file that creates this user.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = vec![b"user".to_vec(), self.name.to_vec()];
        parts.extend(self.flags().iter().map(|flag| flag.as_bytes().to_vec()));
        parts.extend(self.passwords.iter().map(|one| format!("#{}", one.hex()).into_bytes()));
        parts.push(self.selectors[0].describe());
        let further = self.selectors[1..].iter();
        parts.extend(further.map(|selector| [&b"("[..], &selector.describe(), b")"].concat()));
        parts.join(&b' ')
    }
}

/// Joins the words of selectors such as `(~a* +get)`, which were split at spaces. The error is the index of an unclosed
/// parenthesis.
pub(super) fn join_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut joined: Vec<Vec<u8>> = Vec::with_capacity(rules.len());
    let mut open: Option<usize> = None;
    for (i, rule) in rules.iter().enumerate() {
        if open.is_some() {
            let selector = joined.last_mut().expect("its beginning is there");
            selector.push(b' ');
            selector.extend_from_slice(rule);
        } else {
            joined.push(rule.to_vec());
            open = rule.starts_with(b"(").then_some(i);
        }
        if rule.ends_with(b")") {
            open = None;
        }
    }
    open.map_or(Ok(joined), Err)
}
