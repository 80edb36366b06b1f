//! Finds where a reply ends, for those who pass replies on without reading them.

use memchr::memchr;

use super::number::parse_u32;
use super::{Command, LineTooLong};
use crate::args::ArgsView;

/// The longest line of a reply.
const LINE_MAX: usize = 64 << 10;

/// The form of the reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// One line.
    Line,
    /// Lines and values up to END, or one line of an error.
    Values,
    /// One line, behind which a value follows if it begins with VA.
    Meta,
    /// Anything up to the line MN, which is the reply to a `mn` behind the request.
    Marked,
}

impl ReplyForm {
    /// The form of the reply to a request that suppresses nothing.
    pub fn of(command: Option<Command>) -> ReplyForm {
        use Command as Cmd;
        match command {
            Some(Cmd::Get | Cmd::Gets | Cmd::Gat | Cmd::Gats | Cmd::Stats) => ReplyForm::Values,
            Some(command) if command.is_meta() => ReplyForm::Meta,
            _ => ReplyForm::Line,
        }
    }
}

/// Finds the ends of the replies of one connection. Lines that have arrived whole are looked at once.
#[derive(Debug, Default)]
pub struct ReplyEnd {
    /// Everything before belongs to lines and values of the reply that go on.
    at: usize,
}

impl ReplyEnd {
    /// The length of the reply of this form at the start of `input`; None if its end has not arrived.
    ///
    /// After None the caller must pass the same bytes again with more behind them, after a length the bytes behind
    /// that reply.
    ///
    /// # Errors
    ///
    /// If a line is too long. The connection must then be closed.
    pub fn find(&mut self, form: ReplyForm, input: &[u8]) -> Result<Option<usize>, LineTooLong> {
        loop {
            let Some(rest) = input.get(self.at..) else { return Ok(None) };
            let Some(len) = line_len(rest)? else { return Ok(None) };
            let line = rest[..len].trim_ascii_end();
            let end = self.at + len + value_len(line).map_or(0, |len| len + 2);
            let goes_on = match form {
                ReplyForm::Line | ReplyForm::Meta => false,
                ReplyForm::Values => line.starts_with(b"VALUE ") || line.starts_with(b"STAT "),
                ReplyForm::Marked => line != b"MN",
            };
            if goes_on {
                self.at = end;
            } else if end <= input.len() {
                self.at = 0;
                return Ok(Some(end));
            } else {
                return Ok(None);
            }
        }
    }
}

/// Whether the request asks not to be answered.
pub fn is_quiet(command: Command, args: ArgsView<'_>) -> bool {
    use Command as Cmd;
    let last = || args.iter().next_back();
    match command {
        Cmd::MetaGet | Cmd::MetaSet | Cmd::MetaDelete | Cmd::MetaArithmetic => {
            // As for a node, which looks at the first letter alone.
            args.tail(2).iter().any(|flag| flag.first() == Some(&b'q'))
        }
        Cmd::Get | Cmd::Gets | Cmd::Gat | Cmd::Gats | Cmd::Stats | Cmd::MetaDebug => false,
        _ => last() == Some(b"noreply"),
    }
}

/// The length of a line with its end.
fn line_len(input: &[u8]) -> Result<Option<usize>, LineTooLong> {
    match memchr(b'\n', &input[..input.len().min(LINE_MAX)]) {
        Some(at) => Ok(Some(at + 1)),
        None if input.len() >= LINE_MAX => Err(LineTooLong),
        None => Ok(None),
    }
}

/// The length of the value that follows a line: `VALUE key flags length [cas]`, `VA length flags...`.
fn value_len(line: &[u8]) -> Option<usize> {
    let mut words = line.split(|byte| *byte == b' ');
    let at = match words.next()? {
        b"VALUE" => 2,
        b"VA" => 0,
        _ => return None,
    };
    parse_u32(words.nth(at)?).map(|len| len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_however_the_bytes_arrive() {
        for (form, reply) in [
            (ReplyForm::Line, "STORED\r\n"),
            (ReplyForm::Values, "VALUE a 0 5\r\nEND\r\n\r\nVALUE b 7 0 99\r\n\r\nEND\r\n"),
            (ReplyForm::Values, "END\r\n"),
            (ReplyForm::Values, "SERVER_ERROR no\r\n"),
            (ReplyForm::Values, "STAT a 1\r\nSTAT b 2\r\nEND\r\n"),
            (ReplyForm::Meta, "VA 4 f1 c2\r\n\r\nab\r\n"),
            (ReplyForm::Meta, "HD O1\r\n"),
            (ReplyForm::Marked, "MN\r\n"),
            (ReplyForm::Marked, "VA 4 kMN\r\nMN\r\n\r\nMN\r\n"),
            (ReplyForm::Marked, "CLIENT_ERROR no\r\nMN\r\n"),
        ] {
            let input = format!("{reply}HD\r\nMN\r\n");
            for step in [1, 2, 5, input.len()] {
                let mut end = ReplyEnd::default();
                let mut cuts = (0..input.len()).step_by(step).chain([input.len()]);
                let found = cuts.find_map(|cut| {
                    let found = end.find(form, &input.as_bytes()[..cut]).unwrap();
                    assert!(found.is_none() || cut >= reply.len(), "{reply:?} at {cut}");
                    found
                });
                assert_eq!(found, Some(reply.len()), "{reply:?} by {step}");
            }
        }
        let long = vec![b'x'; LINE_MAX];
        assert_eq!(ReplyEnd::default().find(ReplyForm::Line, &long), Err(LineTooLong));
    }
}
