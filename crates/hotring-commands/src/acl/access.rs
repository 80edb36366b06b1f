//! The rights of one connection: its user, and whether it has authenticated.

use std::sync::Arc;

use hotring_protocol::ArgsView;

use super::ChannelKind;
use super::user::User;
use crate::table::{CommandId, Flags, Spec};

/// Why a request is not run. The later ones have come further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Denied {
    /// The connection has yet to authenticate.
    Unauthenticated,
    /// The user may not run the command.
    Command,
    /// Nor use this argument as a key.
    Key(usize),
    /// Nor use this argument as a channel.
    Channel(usize),
}

impl Denied {
    /// The error in Redis's words.
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
    /// It has given a password, or began when the default user needed none.
    authenticated: bool,
    /// It may do everything, so that no check is needed.
    is_free: bool,
}

impl Access {
    /// Of a connection that begins.
    pub(crate) fn new(default: Arc<User>) -> Self {
        let authenticated = default.is_open();
        Access::of(default, authenticated)
    }

    /// Of one that has authenticated.
    pub(crate) fn authenticated(user: Arc<User>) -> Self {
        Access::of(user, true)
    }

    /// Of one that has to do so again.
    pub(crate) fn unauthenticated(default: Arc<User>) -> Self {
        Access::of(default, false)
    }

    fn of(user: Arc<User>, authenticated: bool) -> Self {
        let is_free = (authenticated || user.is_open()) && user.is_unrestricted();
        Access { user, authenticated, is_free }
    }

    /// With the user as it is now: None if it is no longer there, or may not listen to all of `listened`.
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

    /// Its user.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// May it do everything?
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.is_free
    }

    /// Does it have to authenticate before it may do anything?
    pub(crate) fn is_locked(&self) -> bool {
        !self.authenticated && !self.user.is_open()
    }

    /// May it run this request?
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

/// Does the request hold a password? Then no log keeps it.
pub(crate) fn has_secrets(id: CommandId, args: ArgsView<'_>) -> bool {
    match id {
        CommandId::Auth | CommandId::Hello | CommandId::AclSetUser => true,
        CommandId::ConfigSet => args.iter().any(|arg| arg.eq_ignore_ascii_case(b"requirepass")),
        _ => false,
    }
}
