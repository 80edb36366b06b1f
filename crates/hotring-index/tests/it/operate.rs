//! How an operation of a history is done on a u64 session: the same for every suite.

use crate::history::{Op, Outcome};
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64", loom), not(shuttle)))]
use hotring_index::LinesSession;
use hotring_index::{Engine, Session, U64};

/// Does an operation that u64 items have; expiries and versions are for byte strings.
macro_rules! operate {
    ($session:expr, $key:expr, $op:expr) => {{
        use Outcome::{Flag, Value};
        let (session, key) = ($session, $key);
        match $op {
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
    }};
}

/// On a session of the ring or of another engine.
pub fn operate<E: Engine>(session: &mut Session<U64, E>, key: u64, op: Op) -> Outcome {
    operate!(session, key, op)
}

/// On a session of lines.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64", loom), not(shuttle)))]
pub fn operate_on_lines(session: &mut LinesSession, key: u64, op: Op) -> Outcome {
    operate!(session, key, op)
}
