//! `client-output-buffer-limit` in Redis's format: one or several classes of clients, each with three limits.

use crate::settings::config::Config;
use crate::settings::values::size;

pub(super) fn text(config: &Config) -> String {
    let idle = &config.idle_output_limits;
    let class = |name: &str, hard: usize, (soft, seconds): (usize, u64)| {
        format!("{name} {hard} {soft} {seconds}")
    };
    [
        class("normal", config.output_hard_max, idle.normal_soft),
        class("slave", idle.replica_hard, idle.replica_soft),
        class("pubsub", config.subscriber_output_max, idle.subscriber_soft),
    ]
    .join(" ")
}

pub(super) fn set(config: &mut Config, text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (classes, rest) = words.as_chunks::<4>();
    if !rest.is_empty() {
        return Err("Wrong number of arguments in buffer limit configuration.".to_string());
    }
    for [class, hard, soft, seconds] in classes {
        const WRONG: &str =
            "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let (hard, soft) = (size(hard, 0), (size(soft, 0), seconds.parse::<u64>()));
        let (Ok(hard), (Ok(soft), Ok(seconds))) = (hard, soft) else {
            return Err(WRONG.to_string());
        };
        let idle = &mut config.idle_output_limits;
        match class.to_ascii_lowercase().as_str() {
            "normal" => (config.output_hard_max, idle.normal_soft) = (hard, (soft, seconds)),
            "pubsub" => {
                (config.subscriber_output_max, idle.subscriber_soft) = (hard, (soft, seconds));
            }
            "replica" | "slave" => (idle.replica_hard, idle.replica_soft) = (hard, (soft, seconds)),
            _ => {
                let message = "Invalid client class specified in buffer limit configuration.";
                return Err(message.to_string());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_set_one_by_one_and_shown_together() {
        let mut config = Config::default();
        set(&mut config, "pubsub 2mb 1mb 7 NORMAL 0 0 0").unwrap();
        assert_eq!((config.output_hard_max, config.subscriber_output_max), (0, 2 << 20));
        assert_eq!(
            text(&config),
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 2097152 1048576 7"
        );
        for wrong in ["normal 0 0", "master 0 0 0", "normal x 0 0", "normal 0 0 -1"] {
            assert!(set(&mut config, wrong).is_err(), "{wrong}");
        }
    }
}
