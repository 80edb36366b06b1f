//! The rights of one connection: its user, and whether it has authenticated.

use std::sync::Arc;

use hotring_protocol::ArgsView;

use super::ChannelKind;
use super::user::User;
use crate::table::{CommandId, Flags, Spec};

/// The reason why a request is denied, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The connection has yet to authenticate.
    Unauthenticated,
    /// The user may not run the command.
    Command,
    /// The user may not use this argument as a key.
    Key(usize),
    /// The user may not use this argument as a channel.
    Channel(usize),
}

impl Denied {
    /// The error reply in Redis's words.
    pub(crate) fn message(self, user: &User, spec: &Spec) -> String {
        match self {
            Denied::Unauthenticated => "NOAUTH Authentication required.".to_string(),
            Denied::Command => format!(
                "NOPERM User {} has no permissions to run the '{}' command",
                String::from_utf8_lossy(&user.name),
                spec.name
            ),
            Denied::Key(_) => "NOPERM No permissions to access a key".to_string(),
            Denied::Channel(_) => "NOPERM No permissions to access a channel".to_string(),
        }
    }
}

/// A connection's user.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    user: Arc<User>,
    /// The connection has given a password, or began when the default user needed none.
    authenticated: bool,
    /// The connection may do everything, so that requests need no check.
    is_free: bool,
}

impl Access {
    /// The rights of a new connection.
    pub(crate) fn new(default: Arc<User>) -> Self {
        let authenticated = default.is_open();
        Access::of(default, authenticated)
    }

    /// The rights of a connection that has authenticated.
    pub(crate) fn authenticated(user: Arc<User>) -> Self {
        Access::of(user, true)
    }

    /// The rights of a connection whose authentication was revoked: it must authenticate again, unless the default user
    /// needs no password.
    pub(crate) fn unauthenticated(default: Arc<User>) -> Self {
        Access::of(default, false)
    }

    /// The rights of the server itself.
    pub(crate) fn unrestricted() -> Self {
        Access::of(Arc::new(User::unrestricted(0, b"primary")), true)
    }

    fn of(user: Arc<User>, authenticated: bool) -> Self {
        let is_free = (authenticated || user.is_open()) && user.is_unrestricted();
        Access { user, authenticated, is_free }
    }

    /// The rights after a change of users; `now` is the current user of the name. None if the user was removed, or may
    /// not listen to all of `listened`.
    pub(super) fn renewed<'a>(
        &self,
        now: Option<Arc<User>>,
        mut listened: impl Iterator<Item = (ChannelKind, &'a [u8])>,
    ) -> Option<Self> {
        let user = now.filter(|user| user.id == self.user.id)?;
        let same = Arc::ptr_eq(&user, &self.user);
        let may_stay = same || listened.all(|(kind, name)| user.may_listen(kind, name));
        may_stay.then(|| Access::of(user, self.authenticated))
    }

    /// The connection's user.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// Whether the connection may do everything.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.is_free
    }

    /// Whether the connection must authenticate before other commands.
    pub(crate) fn is_locked(&self) -> bool {
        !self.authenticated && !self.user.is_open()
    }

    /// Checks whether the connection may run this request.
    pub(crate) fn check(&self, spec: &Spec, args: ArgsView<'_>) -> Result<(), Denied> {
        if self.is_free {
            return Ok(());
        }
        if self.is_locked() && !spec.flags.contains(Flags::NO_AUTH) {
            return Err(Denied::Unauthenticated);
        }
        self.user.check(spec, args)
    }
}

/// Whether the request may hold a password. Such a request must not appear in any log.
pub(crate) fn has_secrets(id: CommandId, args: ArgsView<'_>) -> bool {
    match id {
        CommandId::Auth | CommandId::Hello | CommandId::AclSetUser => true,
        CommandId::ConfigSet => args.iter().any(|arg| {
            arg.eq_ignore_ascii_case(b"requirepass") || arg.eq_ignore_ascii_case(b"masterauth")
        }),
        _ => false,
    }
}
