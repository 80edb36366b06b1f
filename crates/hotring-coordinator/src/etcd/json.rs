//! etcd's requests and answers in JSON, as its gateway maps them: names and values in base64, 64-bit numbers as texts,
//! and fields that are zero left out.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Change, Changed, Lease, LeaseId, Outcome, Record, Revision, Snapshot, Transaction};

/// The names of a cluster: those that begin with its prefix.
#[derive(Clone, Debug)]
pub(super) struct Prefix(String);

impl Prefix {
    /// The prefix of a cluster's name.
    pub(super) fn of(cluster: &str) -> Option<Prefix> {
        let may_be = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let is_name = !cluster.is_empty() && cluster.len() <= 128 && cluster.chars().all(may_be);
        is_name.then(|| Prefix(format!("/hotring/{cluster}/")))
    }

    fn key(&self, name: &str) -> String {
        STANDARD.encode(format!("{}{name}", self.0))
    }

    /// The range of all names: behind them comes the next character after the last slash.
    fn range(&self) -> (String, String) {
        let end = format!("{}0", self.0.strip_suffix('/').expect("a prefix ends with a slash"));
        (STANDARD.encode(&self.0), STANDARD.encode(end))
    }

    /// The name of a key. None for one that no hotring has written.
    fn name(&self, key: &Value) -> Option<String> {
        let key = String::from_utf8(bytes(key)?).ok()?;
        key.strip_prefix(&self.0).map(str::to_owned)
    }

    pub(super) fn read(&self) -> Value {
        let (key, range_end) = self.range();
        json!({"key": key, "range_end": range_end})
    }

    /// A read that shows nothing but that the member answers reads of the present.
    pub(super) fn count(&self) -> Value {
        let (key, range_end) = self.range();
        json!({"key": key, "range_end": range_end, "count_only": true})
    }

    pub(super) fn transact(&self, transaction: &Transaction) -> Value {
        let compare = |(name, revision): &(String, Revision)| {
            json!({
                "key": self.key(name), "target": "MOD", "result": "EQUAL",
                "mod_revision": revision.to_string(),
            })
        };
        let change = |change: &Change| match change {
            Change::Put { name, value, lease } => json!({"request_put": {
                "key": self.key(name), "value": STANDARD.encode(value),
                "lease": lease.unwrap_or(0).to_string(),
            }}),
            Change::Delete { name } => json!({"request_delete_range": {"key": self.key(name)}}),
        };
        let compare: Vec<Value> = transaction.expect.iter().map(compare).collect();
        let success: Vec<Value> = transaction.changes.iter().map(change).collect();
        json!({"compare": compare, "success": success})
    }

    pub(super) fn watch(&self, after: Revision) -> Value {
        let (key, range_end) = self.range();
        let start = (after + 1).to_string();
        json!({"create_request": {"key": key, "range_end": range_end, "start_revision": start}})
    }

    pub(super) fn snapshot(&self, answer: &Value) -> Option<Snapshot> {
        let mut records = Vec::new();
        for kv in list(&answer["kvs"]) {
            let Some(name) = self.name(&kv["key"]) else { continue };
            let (revision, value) = (number(&kv["mod_revision"])?, bytes(&kv["value"])?);
            records.push(Record { name, revision, value });
        }
        Some(Snapshot { revision: revision(answer)?, records })
    }

    /// What a message of a watch tells: the changes of each revision. etcd never splits those of one.
    pub(super) fn changes(&self, result: &Value) -> Option<Vec<Changed>> {
        let mut changes: Vec<Changed> = Vec::new();
        for event in list(&result["events"]) {
            let kv = &event["kv"];
            let Some(name) = self.name(&kv["key"]) else { continue };
            let revision = number(&kv["mod_revision"])?;
            let value = if event["type"] == "DELETE" { None } else { Some(bytes(&kv["value"])?) };
            match changes.last_mut() {
                Some(last) if last.revision == revision => last.records.push((name, value)),
                _ => changes.push(Changed { revision, records: vec![(name, value)] }),
            }
        }
        Some(changes)
    }
}

pub(super) fn outcome(answer: &Value) -> Option<Outcome> {
    match answer["succeeded"] == true {
        true => revision(answer).map(Outcome::Done),
        false => revision(answer).map(|_| Outcome::Conflict),
    }
}

/// A lease of whole seconds, at least as many as asked for.
pub(super) fn grant(ttl: Duration) -> Value {
    let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    json!({"TTL": seconds.max(1).to_string()})
}

pub(super) fn lease(answer: &Value) -> Option<Lease> {
    let id = answer["ID"].as_str()?.parse().ok()?;
    Some(Lease { id, ttl: Duration::from_secs(number(&answer["TTL"])?) })
}

/// Names a lease.
pub(super) fn of_lease(lease: LeaseId) -> Value {
    json!({"ID": lease.to_string()})
}

/// Whether the lease lives that an answer to a sign of life is about.
pub(super) fn lives(answer: &Value) -> Option<bool> {
    let result = &answer["result"];
    revision(result)?;
    Some(number(&result["TTL"])? > 0)
}

/// The revision in the head of an answer.
pub(super) fn revision(answer: &Value) -> Option<Revision> {
    answer.get("header").and_then(|header| number(&header["revision"]))
}

/// A number, which is a text if it has 64 bits, and is left out if it is 0.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}

/// Bytes, which are left out if there are none.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => Some(Vec::new()),
        value => STANDARD.decode(value.as_str()?).ok(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> Prefix {
        Prefix::of("main").unwrap()
    }

    #[test]
    fn names_of_clusters_cannot_reach_into_others() {
        for bad in ["", "a/b", "a b", "é", &"n".repeat(129)] {
            assert!(Prefix::of(bad).is_none(), "{bad}");
        }
        let (key, end) = prefix().range();
        assert_eq!(
            (key, end),
            (STANDARD.encode("/hotring/main/"), STANDARD.encode("/hotring/main0"))
        );
    }

    #[test]
    fn answers_of_another_form_are_none() {
        let mut answers = vec![json!({}), json!([]), json!({"header": {"revision": "x"}})];
        let kv = |kv: Value| json!({"header": {"revision": "7"}, "kvs": [kv]});
        let key = prefix().key("a");
        answers.push(kv(json!({"key": key, "mod_revision": "5", "value": "?"})));
        answers.push(kv(json!({"key": key, "mod_revision": "-5"})));
        assert!(answers.iter().all(|answer| prefix().snapshot(answer).is_none()));
        assert!(answers[..3].iter().all(|answer| outcome(answer).is_none()));
        assert!(answers.iter().all(|answer| lease(answer).is_none() && lives(answer).is_none()));
        // A name that no hotring has written is passed over.
        let foreign = kv(json!({"key": STANDARD.encode("/hotring/main/\u{1}").as_str()}));
        assert_eq!(prefix().snapshot(&foreign).unwrap().records.len(), 1);
        let foreign = kv(json!({"key": STANDARD.encode([b'/', 255]).as_str()}));
        assert_eq!(prefix().snapshot(&foreign).unwrap().records, []);
    }

    #[test]
    fn events_are_grouped_by_revision() {
        let event = |name: &str, revision: u64| json!({"kv": {"key": prefix().key(name), "mod_revision": revision.to_string(), "value": "eA=="}});
        let gone = json!({"type": "DELETE", "kv": {"key": prefix().key("c"), "mod_revision": "5"}});
        let result = json!({"events": [event("a", 4), event("b", 5), gone, event("a", 6)]});
        let changes = prefix().changes(&result).unwrap();
        let found: Vec<_> = changes.iter().map(|it| (it.revision, it.records.len())).collect();
        assert_eq!(found, [(4, 1), (5, 2), (6, 1)]);
        assert_eq!(changes[1].records[1], ("c".to_owned(), None));
        assert_eq!(changes[2].records[0], ("a".to_owned(), Some(b"x".to_vec())));
    }

    #[test]
    fn leases_are_whole_seconds() {
        let seconds = |millis| grant(Duration::from_millis(millis))["TTL"].clone();
        assert_eq!([seconds(0), seconds(1_000), seconds(1_001)], ["1", "1", "2"].map(Value::from));
    }
}
