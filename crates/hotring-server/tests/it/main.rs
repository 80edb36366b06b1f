//! Tests of the server over real sockets: one binary, one file per topic.
//!
//! Not covered here: the replies of each data command (unit tests of the commands), real client
//! libraries (`tests/clients`), and behaviour under thousands of connections.

mod abuse;
mod admin;
mod bad_input;
mod blocking;
mod bypass;
mod clients;
mod cluster;
mod databases;
mod differential;
mod differential_acl;
mod differential_blocking;
mod differential_clients;
mod differential_cluster;
mod differential_events;
mod differential_geo;
mod differential_hyperloglog;
mod differential_lists;
mod differential_operators;
mod differential_pubsub;
mod differential_script_errors;
mod differential_set;
mod differential_tracking;
mod differential_types;
mod differential_zset;
mod eviction;
mod expiry;
mod full_disk;
mod giants;
mod handshakes;
mod history;
mod hot_keys;
mod limits;
mod long_values;
mod memcached;
mod memcached_differential;
mod pipeline;
mod pubsub;
mod redis_data;
mod redis_link;
mod redis_link_peers;
mod redis_proxy;
mod replication;
mod requests;
mod scripts;
mod scripts_differential;
#[path = "../../../hotring-store/tests/it/search.rs"]
mod search;
mod snapshots;
mod start;
mod tls;
mod tools;
mod tracking;
mod transactions;
mod users;
mod waiting;
mod wire;
