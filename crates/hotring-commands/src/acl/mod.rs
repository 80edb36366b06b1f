//! Access control lists: the users, their passwords and their rights. The commands are in `commands/acl.rs`.
//!
//! ```text
//!   Acl --- users by name, each an Arc<User> that never changes
//!    |                         ^
//!    |            Access ------+   a connection's user; `is_free` if it may do everything
//!    +--- DenialLog
//! ```
//! Requests of a connection whose user may do everything need no checks: the executor tests `is_free` once per batch,
//! together with other special states of the connection. For all other connections, each request is checked before it
//! runs or is queued, and again when its transaction runs.
//!
//! A change replaces the user by a new one and then signals all connections. A connection must look up its user again
//! when it is signalled, which may end the connection, and before it runs the requests that it has read. So requests
//! that were sent after the reply to the change see the change.

mod access;
mod file;
mod log;
mod password;
mod selector;
mod user;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) use access::{Access, Denied, has_secrets};
pub(crate) use log::{Denial, DenialLog, Origin, Reason};
pub(crate) use user::User;

use crate::settings::config::Secret;
use crate::table::quoted;

use password::Digest;
use selector::has_spaces;
use user::join_selectors;

/// The kind of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelKind {
    Channel,
    /// All channels whose names match.
    Pattern,
    /// A channel of SPUBLISH, separate from other channels and not matched by patterns.
    Shard,
}

impl ChannelKind {
    pub(crate) const ALL: [Self; 3] = [Self::Channel, Self::Pattern, Self::Shard];
}

/// Users by their names.
type Users = BTreeMap<Box<[u8]>, Arc<User>>;

/// The user of a new connection, before it authenticates.
const DEFAULT: &[u8] = b"default";

/// All users, and recent denials.
#[derive(Debug)]
pub struct Acl {
    users: RwLock<Users>,
    next_id: AtomicU64,
    /// Recent denials.
    pub log: DenialLog,
}

/// The fault of a rule. The text is Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleError {
    Syntax,
    UnknownName,
    AllKeys,
    AllChannels,
    NoSuchPassword,
    BadHash,
    NoFirstArg,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Syntax => "Syntax error",
            RuleError::UnknownName => "Unknown command or category name in ACL",
            RuleError::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does \
                 not have any effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and \
                 does not have any effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase \
                 hexadecimal characters"
            }
            RuleError::NoFirstArg => "Allowing first-arg of a subcommand is not supported",
        })
    }
}

impl Acl {
    /// The initial users: only the default user, with this password, or without a password if it is empty.
    pub(crate) fn new(requirepass: &Secret) -> Self {
        let default = default_user(0, requirepass);
        Acl {
            users: RwLock::new(Users::from([(DEFAULT.into(), default.into())])),
            next_id: AtomicU64::new(1),
            log: DenialLog::default(),
        }
    }

    /// A user by its name.
    pub(crate) fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.read().get(name).cloned()
    }

    /// The user of a new connection, before it authenticates.
    pub(crate) fn default_user(&self) -> Arc<User> {
        self.user(DEFAULT).expect("the default user is always there")
    }

    /// All users, in the order of their names.
    pub(crate) fn users(&self) -> Vec<Arc<User>> {
        self.read().values().cloned().collect()
    }

    /// The user with this name, if it may log in with this password.
    pub(crate) fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        // Must come before the lookup, so that the time does not reveal whether the user exists.
        let digest = Digest::of(password);
        self.user(name).filter(|user| user.admits(&digest))
    }

    /// The rights of a connection after a change of users; None if the connection must end. `listened` are its
    /// subscriptions.
    pub(crate) fn renew<'a>(
        &self,
        access: &Access,
        listened: impl Iterator<Item = (ChannelKind, &'a [u8])>,
    ) -> Option<Access> {
        access.renewed(self.user(&access.user().name), listened)
    }

    /// Creates or changes a user, applying all of the rules or none.
    pub(crate) fn set_user(&self, name: &[u8], rules: &[&[u8]]) -> Result<(), String> {
        if name.is_empty() {
            // A line of the ACL file cannot hold an empty name.
            return Err("ERR Usernames can't be empty".to_string());
        }
        if has_spaces(name) {
            return Err("ERR Usernames can't contain spaces or null characters".to_string());
        }
        let rules = join_selectors(rules).map_err(|position| {
            let rule = quoted(rules[position]);
            format!("ERR Unmatched parenthesis in acl selector starting at '{rule}'.")
        })?;
        let mut users = self.write();
        let mut user = match users.get(name) {
            Some(user) => User::clone(user),
            None => User::new(self.new_id(), name),
        };
        for rule in &rules {
            user.apply(rule).map_err(|why| {
                format!("ERR Error in ACL SETUSER modifier '{}': {why}", quoted(rule))
            })?;
        }
        users.insert(name.into(), user.into());
        Ok(())
    }

    /// Removes users; returns the number of removed ones. The default user must not be removed.
    pub(crate) fn delete(&self, names: &[&[u8]]) -> Result<usize, &'static str> {
        if names.contains(&DEFAULT) {
            return Err("ERR The 'default' user cannot be removed");
        }
        let mut users = self.write();
        Ok(names.iter().filter(|name| users.remove(**name).is_some()).count())
    }

    /// Sets the password of the default user, or makes it need none.
    pub(crate) fn set_default_password(&self, password: &Secret) {
        let mut users = self.write();
        let mut default = User::clone(&users[DEFAULT]);
        set_password(&mut default, password);
        users.insert(DEFAULT.into(), default.into());
    }

    /// Replaces all users by those of a file. If the file does not name the default user, that user is reset to its
    /// initial state with this password.
    pub(crate) fn load(&self, path: &Path, requirepass: &Secret) -> Result<(), String> {
        // Read before taking the lock, which connections wait for.
        let mut read = file::read(path, |name| User::new(self.new_id(), name))?;
        for user in read.values().filter(|user| !user.is_on()) {
            tracing::info!(user = %quoted(&user.name), "a user of the ACL file is off");
        }
        let default = || default_user(self.new_id(), requirepass).into();
        read.entry(DEFAULT.into()).or_insert_with(default);
        let mut users = self.write();
        // A connection keeps its user if the file has a user with the same name.
        for (name, user) in &mut read {
            if let Some(old) = users.get(name) {
                Arc::make_mut(user).id = old.id;
            }
        }
        *users = read;
        Ok(())
    }

    /// Writes all users to a file.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        // Write without holding the lock, which connections wait for.
        file::write(path, &self.users())
    }

    fn new_id(&self) -> u64 {
        // ORDERING: Relaxed, only uniqueness matters.
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn read(&self) -> RwLockReadGuard<'_, Users> {
        // A panic during a change leaves the users consistent.
        self.users.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Users> {
        self.users.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The initial default user.
fn default_user(id: u64, requirepass: &Secret) -> User {
    let mut user = User::unrestricted(id, DEFAULT);
    set_password(&mut user, requirepass);
    user
}

fn set_password(user: &mut User, password: &Secret) {
    let set = match password.reveal() {
        "" => "nopass".to_string(),
        text => format!(">{text}"),
    };
    for rule in ["resetpass", &set] {
        user.apply(rule.as_bytes()).expect("these are rules");
    }
}

#[cfg(test)]
mod tests;
