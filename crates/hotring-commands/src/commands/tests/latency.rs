//! LATENCY, with a clock that the test sets.

use std::time::Duration;

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};
use crate::observe::latency::{COMMAND, EXPIRE_CYCLE};

/// The initial time of a dialogue's clock, in seconds.
const START: u64 = 1_700_000_000;

#[test]
fn long_times_are_kept_one_a_second() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let server = dialogue.server();
    let note = |event, milliseconds, second: u64| {
        let took = Duration::from_millis(milliseconds);
        server.observe.latency.note(event, took, (START + second) * 1000);
    };
    note(COMMAND, 500, 0);
    assert_eq!(dialogue.say("LATENCY LATEST"), "*0¶", "nothing is watched at first");
    assert!(dialogue.say("LATENCY DOCTOR").contains("Latency is not watched"));
    assert_eq!(dialogue.say("CONFIG SET latency-monitor-threshold 100"), "+OK¶");
    assert!(dialogue.say("LATENCY DOCTOR").contains("Nothing has taken 100 ms"));
    note(COMMAND, 99, 1);
    note(COMMAND, 300, 1);
    note(COMMAND, 200, 1);
    note(COMMAND, 100, 61);
    note(EXPIRE_CYCLE, 150, 2);
    let latest = format!(
        "*2¶*4¶$7¶command¶:{}¶:100¶:300¶*4¶$12¶expire-cycle¶:{}¶:150¶:150¶",
        START + 61,
        START + 2
    );
    assert_eq!(dialogue.say("LATENCY LATEST"), latest);
    let history = format!("*2¶*2¶:{}¶:300¶*2¶:{}¶:100¶", START + 1, START + 61);
    assert_eq!(dialogue.say("LATENCY HISTORY COMMAND"), history);
    assert_eq!(dialogue.say("LATENCY HISTORY nothing"), "*0¶");
    dialogue.pass(3_661_000);
    let graph = dialogue.say("LATENCY GRAPH command");
    let dashes = "-".repeat(80);
    let bars = "# \n".repeat(4);
    let expected = format!(
        "command - high 300 ms, low 100 ms (all time high 300 ms)\n{dashes}\n{bars}11\nhh\n"
    );
    assert_eq!(graph, format!("${}¶{expected}¶", expected.len()));
    let advice = dialogue.say("LATENCY DOCTOR");
    assert!(advice.contains("command: 2 seconds") && advice.contains("SLOWLOG"), "{advice}");
    for second in 0..1_000 {
        note(COMMAND, 100, 100 + second);
    }
    assert!(dialogue.say("LATENCY HISTORY command").starts_with("*160¶"));
    assert_eq!(dialogue.say("LATENCY RESET nothing command"), ":1¶");
    assert_eq!(dialogue.say("LATENCY RESET"), ":1¶");
    assert_eq!(dialogue.say("LATENCY LATEST"), "*0¶");
}

#[test]
fn mistakes() {
    play(
        "
        LATENCY GRAPH command       -> -ERR No samples available for event 'command'¶
        LATENCY HISTORY             -> -ERR wrong number of arguments for 'latency|history' command¶
        LATENCY                     -> -ERR wrong number of arguments for 'latency' command¶
        ",
    );
}

#[test]
fn times_of_commands_are_shown_as_histograms() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("LATENCY LATEST\r\nLATENCY LATEST");
    let reply = dialogue.say("LATENCY HISTOGRAM nonsense latency|LATEST");
    let start = "%1¶$14¶latency|latest¶%2¶$5¶calls¶:2¶$14¶histogram_usec¶%";
    assert!(reply.starts_with(start) && reply.ends_with("¶:2¶"), "{reply}");
    let reply = dialogue.say("LATENCY HISTOGRAM latency");
    assert!(reply.starts_with("%2¶") && reply.contains("$17¶latency|histogram¶"), "{reply}");
    assert!(dialogue.say("LATENCY HISTOGRAM").starts_with("%2¶"));
    assert_eq!(dialogue.say("LATENCY HISTOGRAM nonsense hset"), "%0¶");
}
