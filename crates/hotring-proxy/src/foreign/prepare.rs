//! Puts a request into the protocol of its server.

use hotring_commands::table::resolve;
use hotring_protocol::{Args, Decoder, Limits, Version, memcached};

use super::rewrite::rewrite;
use super::translation::{Back, Translation};
use super::{to_memcached, to_redis};
use crate::link::Protocol;
use crate::plan::write_request;
use crate::reply::{Form, MARK};
use crate::request::Request;

/// Puts a request of a client into the protocol that its server `speaks`. None: it may go out as it is.
///
/// # Errors
///
/// The reply for the client.
pub(crate) fn prepare(
    client: Protocol,
    speaks: Protocol,
    bytes: &[u8],
    request: &mut Request,
) -> Result<Option<Vec<u8>>, Vec<u8>> {
    request.speaks = Some(speaks);
    let written = match (client.is_memcached(), speaks) {
        (false, Protocol::PlainMemcached) => {
            let written = to_memcached(client, bytes, request);
            return written.map(Some).map_err(|error| request.form.error(&error));
        }
        (true, Protocol::PlainMemcached) => again_to_memcached(bytes, request),
        (true, Protocol::Resp2 | Protocol::Resp3) => to_redis(bytes, request),
        _ => return Ok(None),
    };
    written.map(Some).map_err(|line| match request.form {
        Form::Memcached { is_silent: true, .. } => Vec::new(),
        _ => format!("{line}\r\n").into_bytes(),
    })
}

fn to_memcached(client: Protocol, bytes: &[u8], request: &mut Request) -> Result<Vec<u8>, String> {
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    let limits = Limits { bulk_len_max: bytes.len(), ..Limits::default() };
    decoder.decode(bytes, &limits, &mut args).map_err(|error| format!("ERR {error}"))?;
    let args = args.view(bytes);
    let spec = resolve(args).map_err(|error| error.to_string())?;
    let done = to_memcached::translate(spec, args)?;
    let version = match client {
        Protocol::Resp3 => Version::Resp3,
        _ => Version::Resp2,
    };
    request.translation = Some(Box::new(Translation {
        client: request.form,
        version,
        back: Back::Memcached(done.meaning),
        before: Vec::new(),
    }));
    request.form = Form::Memcached { form: done.form, is_silent: false };
    (request.n_replies, request.missing) = (done.n_commands, done.n_commands);
    Ok(done.bytes)
}

fn to_redis(bytes: &[u8], request: &mut Request) -> Result<Vec<u8>, String> {
    let (parsed, command) = parsed(bytes)?;
    let done = to_redis::translate(command, parsed.args(bytes), parsed.data(bytes))?;
    request.translation = Some(Box::new(Translation {
        client: request.form,
        version: Version::Resp2,
        back: Back::Redis(done.answer),
        before: Vec::new(),
    }));
    request.form = Form::Resp;
    let mut out = Vec::new();
    write_request(done.words.iter().map(Vec::as_slice), &mut out);
    Ok(out)
}

fn again_to_memcached(bytes: &[u8], request: &Request) -> Result<Vec<u8>, String> {
    let (parsed, command) = parsed(bytes)?;
    let mut out = rewrite(command, parsed.args(bytes), parsed.data(bytes))?;
    out.extend_from_slice(if request.form.tail() > 0 { MARK } else { b"" });
    Ok(out)
}

/// A request of memcached's protocol, without what may follow it.
fn parsed(bytes: &[u8]) -> Result<(memcached::Request, memcached::Command), String> {
    let mut parsed = memcached::Request::default();
    let limits = memcached::Limits { data_len_max: bytes.len(), ..memcached::Limits::default() };
    let decoded = memcached::Decoder::new().decode(bytes, &limits, &mut parsed);
    let command = decoded.ok().and(parsed.command).ok_or("ERROR")?;
    Ok((parsed, command))
}
