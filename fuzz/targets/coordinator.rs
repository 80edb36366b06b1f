//! Fuzzes both sides of the link to the embedded coordinator: it reads a hostile node, and a node reads a hostile
//! coordinator. Nothing panics. The coordinator answers others meanwhile and afterwards; the node has an outcome for
//! each request.
//!
//! Bit 0 of the first byte says who is hostile: 1 the node. Then come messages: options, a length of two bytes, and the
//! body. Options: bit 0 leaves the right head of the frame out, bit 1 says that more frames of the message follow, bit
//! 2 writes the number of the next request into the body.
#![no_main]

use std::time::Duration;

use hotring_coordinator::{
    Change, Coordinator, Embedded, Outcome, Remote, Stream, Transaction, serve,
};
use hotring_log::wire::{FRAME_HEAD_LEN, FrameWriter, Kind};
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;

/// Bytes on their way.
const PIPE: usize = 1 << 20;

/// How long a request may take. The clock runs as soon as nothing else does.
const LIMIT: Duration = Duration::from_millis(100);

/// The frames of an input.
struct Hostile<'a> {
    input: &'a [u8],
    writer: FrameWriter,
    requests: u64,
}

impl Hostile<'_> {
    /// The bytes of the next frame.
    fn frame(&mut self) -> Option<Vec<u8>> {
        let [options, low, high, rest @ ..] = self.input else { return None };
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (body, rest) = rest.split_at(len);
        self.input = rest;
        let mut body = body.to_vec();
        if let (true, Some(number)) = (options & 4 != 0, body.first_chunk_mut::<8>()) {
            self.requests += 1;
            *number = self.requests.to_le_bytes();
        }
        let mut frame = Vec::new();
        let at = self.writer.begin(&mut frame);
        frame.append(&mut body);
        self.writer.end(&mut frame, at, Kind::Message, options & 2 != 0);
        Some(if options & 1 != 0 { frame.split_off(FRAME_HEAD_LEN) } else { frame })
    }
}

/// A hostile node.
async fn ask(mut hostile: Hostile<'_>) {
    let it = Embedded::in_memory();
    let (near, far) = duplex(PIPE);
    let (mut reader, mut writer) = tokio::io::split(near);
    let sending = async move {
        while let Some(frame) = hostile.frame() {
            if writer.write_all(&frame).await.is_err() {
                return;
            }
        }
        let _ = writer.shutdown().await;
    };
    let reading = async move {
        let mut answers = Vec::new();
        let _ = reader.read_to_end(&mut answers).await;
    };
    let (ended, (), ()) = tokio::join!(serve(far, &it), sending, reading);
    ended.expect_err("it ends with the link");
    let before = it.read().await.expect("it answers");
    let change = Change::Put { name: "own".into(), value: vec![1], lease: None };
    let own = before.records.iter().find(|record| record.name == "own");
    let expect = vec![("own".into(), own.map_or(0, |own| own.revision))];
    let outcome = it.transact(&Transaction { expect, changes: vec![change] }).await;
    assert!(matches!(outcome, Ok(Outcome::Done(_))), "{outcome:?}");
}

/// A hostile coordinator, which sends a frame for each request that it hears.
async fn answer(mut hostile: Hostile<'_>) {
    let (dialled, mut links) = mpsc::unbounded_channel::<DuplexStream>();
    let remote = Remote::new(
        move || {
            let (near, far) = duplex(PIPE);
            let _ = dialled.send(far);
            async move { Ok(Box::new(near) as Box<dyn Stream>) }
        },
        LIMIT,
    );
    let answering = async {
        while let Some(mut link) = links.recv().await {
            (hostile.writer, hostile.requests) = (FrameWriter::default(), 0);
            let mut heard = [0; 4096];
            while let (Ok(1..), Some(frame)) = (link.read(&mut heard).await, hostile.frame()) {
                if link.write_all(&frame).await.is_err() {
                    break;
                }
            }
        }
    };
    let asking = async {
        let _ = remote.read().await;
        let mut watch = remote.watch(0).await.ok();
        let _ = remote.grant(LIMIT).await;
        let _ = remote.transact(&Transaction { expect: Vec::new(), changes: Vec::new() }).await;
        let _ = remote.keep_alive(1).await;
        while let Some(Ok(_)) = watch.as_mut().map(mpsc::Receiver::try_recv) {}
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let [who, input @ ..] = input else { return };
    let hostile = Hostile { input, writer: FrameWriter::default(), requests: 0 };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("it needs no resources").block_on(async {
        match who & 1 {
            1 => ask(hostile).await,
            _ => answer(hostile).await,
        }
    });
});
