//! The settings of messages.

use std::time::Duration;

/// The values of these settings.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricSettings {
    /// `HOST:PORT` or `unix:PATH` of each endpoint, which has a thread of its own; behind a provider of libfabric and a
    /// comma if it is not of sockets. Empty means none.
    pub listen: Vec<String>,
    /// How long a thread looks for messages without sleeping.
    pub spin: Duration,
    /// The maximum length of a message, in bytes.
    pub message_len_max: usize,
    /// The maximum length of a datagram, in bytes; 0 for none.
    pub datagram_len_max: usize,
    /// The number of messages of an endpoint that are received, run or answered at the same time.
    pub slots: u32,
    /// The maximum number of a client's writes whose replies are kept.
    pub window: u32,
    /// The maximum bytes of replies that are kept for a client.
    pub reply_bytes_max: usize,
    /// The silence after which a client may be forgotten in favour of another one.
    pub idle: Duration,
}

impl Default for FabricSettings {
    fn default() -> Self {
        FabricSettings {
            listen: Vec::new(),
            spin: Duration::ZERO,
            message_len_max: 64 << 10,
            // It fits into Ethernet's frames also behind the headers of IPv6 and of a tunnel.
            datagram_len_max: 1400,
            slots: 256,
            window: 1024,
            reply_bytes_max: 64 << 10,
            idle: Duration::from_secs(60),
        }
    }
}
