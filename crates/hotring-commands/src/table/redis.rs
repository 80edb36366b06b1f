//! The names of all of Redis's commands, including those that do not exist here, for comparison pages and for access
//! rules that come from a Redis.

/// The names by group. The subcommands of a command follow it in parentheses.
const COMMANDS: &str = include_str!("redis-commands.txt");

/// A command of Redis 8 without its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisCommand {
    /// The command's group in Redis's documentation.
    pub group: &'static str,
    /// The name in lower case.
    pub name: String,
    /// The names of the subcommands in lower case; most commands have none.
    pub subcommands: Vec<String>,
}

/// All commands of Redis, ordered by group.
pub fn redis_commands() -> Vec<RedisCommand> {
    let lines = COMMANDS.lines().filter(|line| !line.starts_with('#'));
    let groups = lines.filter_map(|line| line.split_once(": "));
    groups.flat_map(|(group, names)| of_group(group, names)).collect()
}

/// Whether Redis has a command of this name, or a subcommand of this full name, such as `client|id`, in any case.
pub fn is_redis_command(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    let (command, sub) = match name.split_once('|') {
        Some((command, sub)) => (command, Some(sub)),
        None => (name.as_str(), None),
    };
    let has = |known: &RedisCommand| match sub {
        Some(sub) => known.subcommands.iter().any(|known| known == sub),
        None => true,
    };
    redis_commands().iter().any(|known| known.name == command && has(known))
}

/// Parses the names of a group: `GET CLIENT(ID INFO)` gives `get`, and `client` with the subcommands `id` and `info`.
fn of_group(group: &'static str, names: &str) -> Vec<RedisCommand> {
    let mut all: Vec<RedisCommand> = Vec::new();
    let mut is_inside = false;
    for word in names.to_ascii_lowercase().split(' ') {
        let (word, ends) = (word.trim_end_matches(')'), word.ends_with(')'));
        match (word.split_once('('), all.last_mut()) {
            (Some((name, first)), _) => {
                let subcommands = vec![first.to_string()];
                all.push(RedisCommand { group, name: name.to_string(), subcommands });
                is_inside = true;
            }
            (None, Some(command)) if is_inside => command.subcommands.push(word.to_string()),
            (None, _) => {
                let name = word.to_string();
                all.push(RedisCommand { group, name, subcommands: Vec::new() });
            }
        }
        is_inside &= !ends;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_redis_are_known_by_their_names() {
        for name in ["get", "ZADD", "xgroup|CREATE", "config|set"] {
            assert!(is_redis_command(name.as_bytes()), "{name}");
        }
        for name in ["", "zadd|x", "config|nonsense", "waitkey", "get(", "strings"] {
            assert!(!is_redis_command(name.as_bytes()), "{name}");
        }
    }
}
