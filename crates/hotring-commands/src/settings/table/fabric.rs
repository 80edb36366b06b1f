//! Settings of messages.

use std::time::Duration;

use hotring_messages::Provider;

use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

pub(super) static FABRIC: &[Setting] = &[
    Setting {
        name: "fabric",
        alias: "",
        placeholder: "HOW,ADDR",
        help: "Endpoint for messages: sockets, or with libfabric shm, tcp, verbs or efa, and behind a comma ADDR:PORT \
               or unix:PATH; may be given several times; each has a thread of its own",
        change: Change::Start,
        get: |c| {
            let full = |address: &String| match Provider::split(address) {
                (None, _) => format!("{SOCKETS}{address}"),
                (Some(_), _) => address.clone(),
            };
            c.fabric.listen.iter().map(full).collect::<Vec<_>>().join(" ")
        },
        set: |c, v| {
            let listen = v.split_whitespace().map(address).collect::<Result<Vec<_>, _>>();
            c.fabric.listen.extend(listen?);
            Ok(())
        },
    },
    Setting {
        name: "fabric-spin",
        alias: "",
        placeholder: "MICROSECONDS",
        help: "How long a thread of messages looks for the next one before it sleeps: answers come sooner, and a \
               processor is busy meanwhile",
        change: Change::Start,
        get: |c| c.fabric.spin.as_micros().to_string(),
        set: |c, v| {
            c.fabric.spin = Duration::from_micros(number(v, 0, 1_000_000)?);
            Ok(())
        },
    },
    Setting {
        name: "fabric-max-message",
        alias: "",
        placeholder: "SIZE",
        help: "Longest message with all its operations; each endpoint takes this memory fabric-slots times",
        change: Change::Start,
        get: |c| c.fabric.message_len_max.to_string(),
        set: |c, v| {
            let n = size(v, 1 << 10)?;
            if n > MESSAGE_LEN_LIMIT {
                return Err("must be at most 16mb".to_string());
            }
            c.fabric.message_len_max = n;
            Ok(())
        },
    },
    Setting {
        name: "fabric-max-datagram",
        alias: "",
        placeholder: "BYTES",
        help: "Longest answer that goes as a datagram of UDP to clients of messages over TCP that ask for it; 0: none \
               does",
        change: Change::Start,
        get: |c| c.fabric.datagram_len_max.to_string(),
        set: |c, v| number(v, 0, DATAGRAM_LEN_LIMIT).map(|n| c.fabric.datagram_len_max = n),
    },
    Setting {
        name: "fabric-slots",
        alias: "",
        placeholder: "N",
        help: "Messages of an endpoint that are received, run or answered at the same time; more wait in their sockets",
        change: Change::Start,
        get: |c| c.fabric.slots.to_string(),
        set: |c, v| number(v, 2, 1 << 16).map(|n| c.fabric.slots = n),
    },
    Setting {
        name: "fabric-window",
        alias: "",
        placeholder: "N",
        help: "Writes of a client of messages whose replies are kept, so that a write that comes again is not run again",
        change: Change::Start,
        get: |c| c.fabric.window.to_string(),
        set: |c, v| number(v, 1, 1 << 20).map(|n| c.fabric.window = n),
    },
    Setting {
        name: "fabric-max-replies",
        alias: "",
        placeholder: "SIZE",
        help: "Bytes of replies that are kept for a client of messages; the fate of a write whose reply finds no room \
               is unknown if the reply is lost",
        change: Change::Start,
        get: |c| c.fabric.reply_bytes_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.fabric.reply_bytes_max = n),
    },
    Setting {
        name: "fabric-idle",
        alias: "",
        placeholder: "SECONDS",
        help: "A client of messages that is silent for this long may be forgotten when maxclients others are known",
        change: Change::Start,
        get: |c| c.fabric.idle.as_secs().to_string(),
        set: |c, v| {
            let seconds = number(v, 1, i32::MAX as u64)?;
            c.fabric.idle = Duration::from_secs(seconds);
            Ok(())
        },
    },
];

/// The endpoint that needs no library, and what parts it from the address.
const SOCKETS: &str = "sockets,";

/// An address without `sockets`, or with another provider.
fn address(word: &str) -> Result<String, String> {
    match (word.strip_prefix(SOCKETS), Provider::split(word)) {
        (Some(address), _) => Ok(address.to_string()),
        (None, (Some(provider), address)) => provider.check(address).map(|()| word.to_string()),
        (None, (None, _)) => {
            Err("must be such as sockets,127.0.0.1:6400 or shm,unix:PATH".to_string())
        }
    }
}

/// What fits into a datagram of IPv4.
const DATAGRAM_LEN_LIMIT: usize = 65_507;

const MESSAGE_LEN_LIMIT: usize = 16 << 20;
