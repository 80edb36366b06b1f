//! The ACL file: one line per user, `user name rules`, as in ACL LIST. Reading a file with faults changes nothing.
//! Writing replaces the file atomically.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::selector::has_spaces;
use super::user::{User, join_selectors};
use super::{RuleError, Users};
use crate::host::files;

/// Reads users from a file; `new` creates a user with this name. The error lists all faults.
pub(super) fn read(path: &Path, new: impl FnMut(&[u8]) -> User) -> Result<Users, String> {
    match fs::read(path) {
        Ok(text) => parse(&text, &path.display().to_string(), new),
        Err(error) => {
            Err(format!("Error loading ACLs, opening file '{}': {error}", path.display()))
        }
    }
}

fn parse(text: &[u8], source: &str, mut new: impl FnMut(&[u8]) -> User) -> Result<Users, String> {
    let mut users = Users::new();
    let mut errors = String::new();
    for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let words: Vec<&[u8]> =
            line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        if words.is_empty() {
            continue;
        }
        match parse_user(&words, &mut new) {
            Ok(user) => {
                let name = user.name.clone();
                if users.insert(name.clone(), user.into()).is_some() {
                    let name = String::from_utf8_lossy(&name);
                    errors +=
                        &format!("WARNING: Duplicate user '{name}' found on line {}. ", i + 1);
                }
            }
            Err(why) => errors += &format!("{source}:{}: {why}. ", i + 1),
        }
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors +=
        "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    Err(errors)
}

fn parse_user(words: &[&[u8]], new: &mut impl FnMut(&[u8]) -> User) -> Result<User, String> {
    let [b"user", name, rules @ ..] = words else {
        return Err("should start with user keyword followed by the username".to_string());
    };
    if has_spaces(name) {
        let name = String::from_utf8_lossy(name);
        return Err(format!("username '{name}' contains invalid characters"));
    }
    let rules = join_selectors(rules)
        .map_err(|_| "Unmatched parenthesis in selector definition".to_string())?;
    let mut user = new(name);
    for rule in rules {
        // Other rules may hold passwords: the error must not repeat them.
        user.apply(&rule).map_err(|why| match why {
            RuleError::UnknownName => {
                format!("Error in applying operation '{}': {why}", String::from_utf8_lossy(&rule))
            }
            _ => why.to_string(),
        })?;
    }
    Ok(user)
}

/// Writes all users to the file. Only its owner may access a new file.
pub(super) fn write(path: &Path, users: &[Arc<User>]) -> io::Result<()> {
    let mut text = Vec::new();
    for user in users {
        text.extend(user.describe());
        text.push(b'\n');
    }
    files::replace(path, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<String>, String> {
        let users = parse(text.as_bytes(), "f", |name| User::new(0, name))?;
        let line = |user: &Arc<User>| String::from_utf8(user.describe()).unwrap();
        Ok(users.values().map(line).collect())
    }

    #[test]
    fn written_rules_are_read_back() {
        let hash = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
        let lines = [
            format!(
                "user alice on sanitize-payload #{hash} ~a* %R~b* resetchannels &news.* -@all +@read -get (%W~c* resetchannels -@all +set)"
            ),
            "user bob off nopass skip-sanitize-payload ~* &* +@all -@dangerous +info".to_string(),
            "user carol off sanitize-payload resetchannels -@all".to_string(),
        ];
        let text = lines.join("\r\n\n");
        assert_eq!(read_text(&text).unwrap(), lines);
        // The same users, spelled differently and in another order.
        let text = " user  bob nopass skip-sanitize-payload allkeys allchannels allcommands -@dangerous +INFO \n\nuser carol\nuser alice on >password ~a* %r~b* &news.* +@READ -Get ( %w~c* +set )";
        assert_eq!(read_text(text).unwrap(), lines);
    }

    /// A temporary file left behind by another process must not pass its permissions on to the new file.
    #[test]
    fn only_the_owner_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt;

        let folder = std::env::temp_dir().join(format!("hotring-acl-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("users.acl");
        let left = folder.join(format!(".users.acl.{}.tmp", std::process::id()));
        fs::write(&left, "of another process").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, &[User::new(0, b"u").into()]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "user u off sanitize-payload resetchannels -@all\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left behind");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn all_mistakes_are_reported_without_passwords() {
        let text =
            "user a on\nuser a off\nusr b\nuser\nuser c +nonsense\nuser d #secret\nuser e (+get\n";
        assert_eq!(
            read_text(text).unwrap_err(),
            "WARNING: Duplicate user 'a' found on line 2. \
             f:3: should start with user keyword followed by the username. \
             f:4: should start with user keyword followed by the username. \
             f:5: Error in applying operation '+nonsense': Unknown command or category name in ACL. \
             f:6: The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters. \
             f:7: Unmatched parenthesis in selector definition. \
             WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        );
    }
}
