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
            Some(
                Cmd::MetaGet
                | Cmd::MetaSet
                | Cmd::MetaDelete
                | Cmd::MetaArithmetic
                | Cmd::MetaDebug,
            ) => ReplyForm::Meta,
            _ => ReplyForm::Line,
        }
    }

    /// The length of the reply at the start of `input`; None if its end has not arrived.
    ///
    /// # Errors
    ///
    /// If a line is too long. The connection must then be closed.
    pub fn find_end(self, input: &[u8]) -> Result<Option<usize>, LineTooLong> {
        let mut at = 0;
        loop {
            let Some(len) = line_len(&input[at..])? else { return Ok(None) };
            let line = input[at..at + len].trim_ascii_end();
            at += len;
            if let Some(n) = value_len(line) {
                at += n + 2;
                if at > input.len() {
                    return Ok(None);
                }
            }
            let goes_on = match self {
                ReplyForm::Line | ReplyForm::Meta => false,
                ReplyForm::Values => line.starts_with(b"VALUE ") || line.starts_with(b"STAT "),
                ReplyForm::Marked => line != b"MN",
            };
            if !goes_on {
                return Ok(Some(at));
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
            args.tail(2).iter().any(|flag| flag == b"q")
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
    fn ends_are_found_wherever_the_bytes_are_cut() {
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
            for cut in 0..input.len() {
                let end = (cut >= reply.len()).then_some(reply.len());
                assert_eq!(form.find_end(&input.as_bytes()[..cut]), Ok(end), "{reply:?} at {cut}");
            }
        }
        assert_eq!(ReplyForm::Line.find_end(&vec![b'x'; LINE_MAX]), Err(LineTooLong));
    }
}
