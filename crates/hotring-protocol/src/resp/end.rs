//! Finds where a reply ends, for those who pass replies on without reading them.

use super::read::{Part, ReplyError, ReplyLimits, find_part};

/// Finds the ends of the replies of one connection. Bytes that arrive in pieces are looked at once, except for the
/// head of a part that is incomplete.
#[derive(Debug, Default)]
pub struct ReplyEnd {
    /// Everything before belongs to complete parts of the reply.
    at: usize,
    /// Parts still missing; 0 before the first.
    left: usize,
}

impl ReplyEnd {
    /// The length of the reply at the start of `input`; None if its end has not arrived.
    ///
    /// After None the caller must pass the same bytes again with more behind them, after a length the bytes behind
    /// that reply. A push message counts as a reply.
    ///
    /// # Errors
    ///
    /// If the bytes are not a reply within the limits. The connection must then be closed.
    pub fn find(
        &mut self,
        input: &[u8],
        limits: &ReplyLimits,
    ) -> Result<Option<usize>, ReplyError> {
        if self.left == 0 {
            self.left = 1;
        }
        while self.left > 0 {
            let Some((part, len)) = find_part(&input[self.at..], limits)? else { return Ok(None) };
            self.at += len;
            // An attribute is followed by the value that it describes.
            self.left -= usize::from(!matches!(part, Part::Attribute(_)));
            self.left = self.left.checked_add(part.n_elements()).ok_or(ReplyError::TooLong)?;
        }
        Ok(Some(std::mem::take(&mut self.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(input: &[u8], step: usize) -> Vec<usize> {
        let (mut end, mut ends, mut start) = (ReplyEnd::default(), Vec::new(), 0);
        for known in (step..input.len() + step).step_by(step) {
            let known = known.min(input.len());
            while start < known
                && let Some(len) = end.find(&input[start..known], &ReplyLimits::NONE).unwrap()
            {
                start += len;
                ends.push(start);
            }
        }
        ends
    }

    #[test]
    fn ends_are_the_same_however_the_bytes_arrive() {
        let replies: [&[u8]; 8] = [
            b"+OK\r\n",
            b"*3\r\n$3\r\na\r\n\r\n*1\r\n:1\r\n$-1\r\n",
            b"%1\r\n+a\r\n~2\r\n_\r\n#t\r\n",
            b"|1\r\n+ttl\r\n:3\r\n*1\r\n|1\r\n+x\r\n+y\r\n:4\r\n",
            b">2\r\n+invalidate\r\n*0\r\n",
            b"*0\r\n",
            b"*-1\r\n",
            b"-MOVED 1 a:2\r\n",
        ];
        let expected: Vec<usize> = replies
            .iter()
            .scan(0, |sum, reply| {
                *sum += reply.len();
                Some(*sum)
            })
            .collect();
        let input = replies.concat();
        for step in [1, 2, 3, 5, input.len()] {
            assert_eq!(ends(&input, step), expected, "{step}");
        }
    }

    #[test]
    fn nonsense_and_absurd_lengths_are_refused() {
        let find = |input: &[u8]| ReplyEnd::default().find(input, &ReplyLimits::NONE);
        assert!(matches!(find(b"what\r\n"), Err(ReplyError::Malformed(_))));
        let absurd = format!("*{}\r\n%{}\r\n", usize::MAX / 2, usize::MAX / 2);
        assert_eq!(find(absurd.as_bytes()), Err(ReplyError::TooLong));
        let bounded = ReplyLimits::default();
        assert_eq!(
            ReplyEnd::default().find(b"$2000000000\r\n", &bounded),
            Err(ReplyError::TooLong)
        );
    }
}
