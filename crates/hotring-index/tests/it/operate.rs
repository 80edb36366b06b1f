//! How an operation of a history is done on a u64 session: the same for every suite.

use crate::history::{Op, Outcome};
use hotring_index::{Engine, Session, U64};

/// Does an operation that u64 items have; expiries and versions are for byte strings.
pub fn operate<E: Engine>(session: &mut Session<U64, E>, key: u64, op: Op) -> Outcome {
    use Outcome::{Flag, Value};
    match op {
        Op::Get => Value(session.get(key)),
        Op::Put(v) => Flag(session.put(key, v)),
        Op::Insert(v) => Flag(session.insert(key, v)),
        Op::Replace(v) => Value(session.replace(key, v)),
        Op::Remove => Flag(session.remove(key)),
        Op::Take => Value(session.take(key)),
        Op::Add(d) => Value(session.fetch_add(key, d)),
        Op::Swap(old, new) => Flag(session.compare_exchange(key, old, new).is_ok()),
        Op::RemoveIf(old) => Flag(session.remove_if(key, old)),
        Op::Append(d) => loop {
            let Some(old) = session.get(key) else { return Value(None) };
            let new = old.wrapping_mul(10).wrapping_add(d);
            if session.compare_exchange(key, old, new).is_ok() {
                return Value(Some(new));
            }
        },
        Op::Expire | Op::Lapse | Op::PutLapsed(_) | Op::Version | Op::SwapVersion(..) => {
            unreachable!("only byte strings have expiries and versions")
        }
    }
}
