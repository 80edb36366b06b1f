//! Greets a primary: authenticates, and finds out what it is.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hotring_commands::settings::config::Config;
use hotring_commands::state::server::Server;
use hotring_log::wire::WIRE_VERSION;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::LinkError;
use super::dial::Stream;

/// The longest line of an answer.
const LINE_MAX: usize = 4 << 10;

/// Limit of the time to answer one request.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What answers at the primary's address.
pub(super) enum Peer {
    /// A hotring server, which sends frames from here on.
    Hotring,
    /// A server that does not know our command: a Redis or a Valkey.
    Redis,
}

/// Authenticates, and asks for the stream.
pub(super) async fn greet(
    stream: &mut dyn Stream,
    server: &Arc<Server>,
) -> Result<Peer, LinkError> {
    let config = server.settings.config();
    log_in(stream, &config).await?;
    let (version, port) = (WIRE_VERSION.to_string(), config.port.to_string());
    match ask(stream, &["HOTRING.REPLICATE", &version, &port]).await? {
        Err(error) if is_unknown(&error) => Ok(Peer::Redis),
        Err(error) => Err(refused(error)),
        Ok(_) => Ok(Peer::Hotring),
    }
}

/// Authenticates, if the settings have a password.
pub(crate) async fn log_in(stream: &mut dyn Stream, config: &Config) -> Result<(), LinkError> {
    let settings = &config.replication;
    if !settings.password.is_empty() {
        let user = Some(settings.user.as_str()).filter(|user| !user.is_empty());
        let words: Vec<&str> =
            ["AUTH"].into_iter().chain(user).chain([settings.password.reveal()]).collect();
        ask(stream, &words).await?.map_err(refused)?;
    }
    Ok(())
}

/// Whether this is the error of a server that does not know our command.
fn is_unknown(error: &str) -> bool {
    error.to_ascii_lowercase().starts_with("err unknown command")
}

pub(crate) fn refused(error: String) -> LinkError {
    LinkError::Peer(format!("the primary refuses: {error}"))
}

/// Sends a request and reads the answer, which must be a simple string or an error.
pub(crate) async fn ask(
    stream: &mut dyn Stream,
    words: &[&str],
) -> Result<Result<String, String>, LinkError> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let line = tokio::time::timeout(ANSWER_MAX, line(stream)).await;
    let line = line.map_err(|_| LinkError::Peer("the primary does not answer".to_string()))??;
    match line.split_at_checked(1) {
        Some(("+", text)) => Ok(Ok(text.to_string())),
        Some(("-", text)) => Ok(Err(text.to_string())),
        _ => Err(LinkError::Peer(format!("the primary answers {}", line.escape_debug()))),
    }
}

/// Reads a line, byte by byte: what follows it belongs to another reader.
async fn line(stream: &mut dyn Stream) -> Result<String, LinkError> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        if line.len() >= LINE_MAX {
            return Err(LinkError::Peer("the primary's answer is too long".to_string()));
        }
        line.push(stream.read_u8().await.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::other("the primary closed the connection"),
            _ => error,
        })?);
    }
    line.truncate(line.len() - 2);
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_commands::host::threads::event_loop;

    /// The answer to a request, if the peer sends these bytes.
    fn answered(bytes: &[u8]) -> Result<Result<String, String>, String> {
        event_loop().unwrap().block_on(async {
            let (mut stream, mut peer) = tokio::io::duplex(1 << 16);
            peer.write_all(bytes).await.unwrap();
            peer.shutdown().await.unwrap();
            ask(&mut stream, &["PING"]).await.map_err(|error| error.to_string())
        })
    }

    #[test]
    fn an_answer_is_a_line_and_nothing_else() {
        assert_eq!(answered(b"+PONG\r\nmore"), Ok(Ok("PONG".into())));
        assert_eq!(answered(b"-NOAUTH no\r\n"), Ok(Err("NOAUTH no".into())));
        for wrong in [&b":1\r\n"[..], b"\r\n", b"$3\r\nabc\r\n", b"+PONG", b""] {
            assert!(answered(wrong).is_err(), "{}", wrong.escape_ascii());
        }
        assert!(answered(&[b'x'; 10_000]).unwrap_err().ends_with("too long"));
    }

    #[test]
    fn the_error_for_an_unknown_command_is_that_of_redis() {
        assert!(is_unknown(
            "ERR unknown command 'HOTRING.REPLICATE', with args beginning with: '1' "
        ));
        assert!(is_unknown("ERR unknown command `HOTRING.REPLICATE`, with args beginning with: "));
        assert!(!is_unknown("NOAUTH Authentication required."));
        assert!(!is_unknown(
            "NOPERM this user has no permissions to run the 'hotring.replicate' command"
        ));
    }
}
