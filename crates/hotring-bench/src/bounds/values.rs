//! Values of mixed lengths, computed from their numbers, and pipelined connections that read and write them.

use anyhow::{Result, bail, ensure};
use fastrand::Rng;

use crate::report::{self, Strides};
use crate::resp::{Client, Reply};
use crate::workload::mix::mix;

/// The smallest amount of data that gives a meaningful result, in bytes.
pub const DATA_MIN: u64 = 1 << 20;
/// Lengths in bytes, uniform on a logarithmic scale: 16 to 32 is as frequent as 2048 to 4096.
const LENGTHS: std::ops::Range<f64> = 16.0..4096.0;
/// Requests in flight on a connection.
const WINDOW: u64 = 64;
/// Connections that work at the same time, each on a thread of its own.
pub const CONNECTIONS: u64 = 2;

/// The values of one version. A key's value has another length in each version.
#[derive(Clone, Debug)]
pub struct Values {
    content: Vec<u8>,
    version: u64,
}

impl Values {
    pub fn of_version(version: u64) -> Self {
        let mut random = Rng::with_seed(version);
        let content = std::iter::repeat_with(|| random.u64(..).to_le_bytes()).flatten();
        Values { content: content.take(LENGTHS.end as usize).collect(), version }
    }

    pub fn value(&self, number: u64) -> &[u8] {
        let fraction = Rng::with_seed(mix(number) ^ self.version).f64();
        let length = LENGTHS.start * (LENGTHS.end / LENGTHS.start).powf(fraction);
        &self.content[..length as usize]
    }

    /// The number of values that together have about `bytes` bytes.
    pub fn count(&self, bytes: u64) -> u64 {
        let (mut numbers, mut sum) = (0, 0);
        while sum < bytes {
            sum += self.value(numbers).len() as u64;
            numbers += 1;
        }
        numbers
    }

    pub fn set(&self, client: &mut Client, number: u64) {
        client.push(&[b"SET", key(number).as_bytes(), self.value(number)]);
    }

    /// Reads a stored value and compares it with the expected one.
    pub fn check(&self, client: &mut Client, number: u64) -> Result<()> {
        let reply = client.call(&[b"GET", key(number).as_bytes()])?;
        let right = reply == Reply::Bulk(Some(self.value(number)));
        ensure!(right, "GET answers something else than the value of {number}");
        Ok(())
    }
}

pub fn key(number: u64) -> String {
    format!("key:{number}")
}

pub fn del(client: &mut Client, number: u64) {
    client.push(&[b"DEL", key(number).as_bytes()]);
}

/// Checks that a reply is `OK`.
pub fn is_ok(reply: Result<Reply<'_>>) -> Result<()> {
    match reply? {
        Reply::Simple("OK") => Ok(()),
        other => bail!("the server answers {other:?}, not OK"),
    }
}

/// Checks that a reply to DEL is 1.
pub fn is_one(reply: Result<Reply<'_>>) -> Result<()> {
    match reply? {
        Reply::Integer(1) => Ok(()),
        other => bail!("the server answers {other:?}, not 1"),
    }
}

/// Sends a request for each of `0..count`, spread over the connections, and passes each reply to `see`.
pub fn by_all(
    clients: &mut [Client],
    count: u64,
    message: &str,
    push: impl Fn(&mut Client, u64) + Sync,
    see: impl Fn(Result<Reply<'_>>) -> Result<()> + Sync,
) -> Result<()> {
    let bar = report::progress(count, message);
    let step = clients.len() as u64;
    std::thread::scope(|scope| {
        let (bar, push, see) = (&bar, &push, &see);
        let each = clients.iter_mut().enumerate().map(|(share, client)| {
            scope.spawn(move || {
                let mut strides = Strides::on(bar);
                let mut next = share as u64;
                while next < count {
                    let mut pushed = 0;
                    while next < count && pushed < WINDOW {
                        push(client, next);
                        next += step;
                        pushed += 1;
                    }
                    client.flush()?;
                    for _ in 0..pushed {
                        see(client.reply())?;
                    }
                    strides.add(pushed);
                }
                anyhow::Ok(())
            })
        });
        let threads: Vec<_> = each.collect();
        threads.into_iter().try_for_each(|t| t.join().expect("a connection's thread panicked"))
    })?;
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_often_short_as_long() {
        let (values, others) = (Values::of_version(1), Values::of_version(2));
        let lengths: Vec<usize> = (0..10_000).map(|n| values.value(n).len()).collect();
        assert!(lengths.iter().all(|length| (16..4096).contains(length)));
        let short = lengths.iter().filter(|&&length| length < 256).count();
        assert!((4_800..5_200).contains(&short), "{short} of 10,000 are in the lower half");
        assert_ne!(values.value(7).len(), others.value(7).len());
        let count = values.count(1 << 20);
        let bytes = |count| (0..count).map(|n| values.value(n).len()).sum::<usize>();
        assert!(bytes(count) >= 1 << 20 && bytes(count - 1) < 1 << 20);
    }
}
