//! Operations of messages and their answers, without sockets.
