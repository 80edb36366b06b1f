//! The users of `memcached-auth-file`.

use std::fmt;
use std::path::Path;

use crate::host::start_error::StartError;

/// The maximum number of users in a file.
const USERS_MAX: usize = 1_000;

/// Names and passwords.
pub struct Users(Vec<User>);

struct User {
    name: Box<[u8]>,
    password: Box<[u8]>,
}

/// Passwords must never be shown.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} users", self.0.len())
    }
}

impl Users {
    /// Reads a file of `name:password` lines, as memcached's option -Y does.
    pub(crate) fn read(path: &Path) -> Result<Users, StartError> {
        let failed = |why: String| {
            StartError::new(format!("cannot use memcached-auth-file {}: {why}", path.display()))
        };
        let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        Users::parse(&text).map_err(failed)
    }

    fn parse(text: &[u8]) -> Result<Users, String> {
        let mut users = Vec::new();
        for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let colon = line.iter().position(|byte| *byte == b':').filter(|at| *at > 0);
            let colon = colon.ok_or(format!("line {} is not name:password", i + 1))?;
            users.push(User { name: line[..colon].into(), password: line[colon + 1..].into() });
        }
        match users.len() {
            0 => Err("it names no user".to_string()),
            n if n > USERS_MAX => Err(format!("it names more than {USERS_MAX} users")),
            _ => Ok(Users(users)),
        }
    }

    /// Whether there is a user of this name with this password. The time taken does not depend on which user matches.
    pub(crate) fn has(&self, name: &[u8], password: &[u8]) -> bool {
        let is = |user: &User| same(&user.name, name) & same(&user.password, password);
        self.0.iter().fold(false, |found, user| found | is(user))
    }
}

/// Compares two byte strings in a time that does not depend on the length of their common prefix.
fn same(secret: &[u8], given: &[u8]) -> bool {
    let differences = (0..given.len()).fold(secret.len() ^ given.len(), |differences, i| {
        let secret = secret.get(i).copied().unwrap_or_default();
        differences | usize::from(secret ^ given[i])
    });
    std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_read_and_compared_whole() {
        let users = Users::parse(b"ann:secret\r\nbob:a:b c\n\neve:\n").unwrap();
        for (name, password, is_one) in [
            ("ann", "secret", true),
            ("ann", "secre", false),
            ("ann", "secrets", false),
            ("an", "secret", false),
            ("bob", "a:b c", true),
            ("bob", "secret", false),
            ("eve", "", true),
            ("", "", false),
        ] {
            assert_eq!(
                users.has(name.as_bytes(), password.as_bytes()),
                is_one,
                "{name} {password}"
            );
        }
        assert_eq!(format!("{users:?}"), "3 users");
    }

    #[test]
    fn an_invalid_file_is_refused() {
        for (text, why) in [
            (&b""[..], "it names no user"),
            (b"\n\n", "it names no user"),
            (b"ann:x\nbob\n", "line 2 is not name:password"),
            (b":x\n", "line 1 is not name:password"),
        ] {
            assert_eq!(Users::parse(text).err().as_deref(), Some(why));
        }
        let many = "a:b\n".repeat(USERS_MAX + 1);
        assert!(Users::parse(many.as_bytes()).is_err());
    }
}
