//! What only the endpoint itself can do wrong. The rest is in the tests of clients and servers.

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Two ends that have met, and the server's number for its client. None if the machine has no such provider.
fn pair(provider: Provider) -> Option<(Fabric, Fabric, Peer, Peer)> {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = format!("{UNIX}{}", folder.path().join("messages").display());
    let listener = Listener::bind(&socket).expect("it is free");
    let server = Fabric::on(provider, listener, 4, 4, 64);
    let mut server = match server {
        Ok(server) => server,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let mut client = Fabric::new(provider, &socket, 4, 64).expect("the server has it");
    let address = server.address();
    let (client, to) = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let to = client.peer(&address, PATIENCE).expect("it listens");
            (client, to)
        });
        let mut came = Vec::new();
        while !client.is_finished() {
            server.wait(Duration::ZERO, Duration::from_millis(5));
            server.poll(&mut came);
        }
        client.join().expect("it has met the server")
    });
    let from = *server.links.keys().next().expect("it has met the client");
    Some((server, client, from, to))
}

/// Sends a byte. Both ends have to progress meanwhile.
fn send(from: &mut Fabric, other: &mut Fabric, to: Peer, byte: u8) {
    let mut slot = from.slab().take().expect("it is free");
    from.slab().bytes_mut(&slot)[0] = byte;
    let begun = Instant::now();
    while let Err(again) = from.send(to, slot, 1) {
        assert!(begun.elapsed() < PATIENCE, "there is no room");
        from.progress();
        other.progress();
        slot = again;
    }
}

/// The first bytes of what arrives within a while.
fn received(at: &mut Fabric, other: &mut Fabric) -> Vec<u8> {
    let (mut bytes, begun) = (Vec::new(), Instant::now());
    while bytes.is_empty() && begun.elapsed() < Duration::from_millis(500) {
        let mut completions = Vec::new();
        other.progress();
        at.wait(Duration::ZERO, Duration::from_millis(5));
        at.poll(&mut completions);
        for completion in completions {
            if let Completion::Received { slot, len: 1, .. } = completion {
                bytes.push(at.slab().bytes(&slot)[0]);
                at.post(slot);
            }
        }
    }
    bytes
}

fn only_the_right_token_is_received(provider: Provider) {
    let Some((mut server, mut client, _, to)) = pair(provider) else { return };
    for _ in 0..2 {
        let slot = server.slab().take().expect("it is free");
        server.post(slot);
    }
    let link = client.links.get_mut(&to).expect("it has met the server");
    link.token ^= 1;
    // More than there are RECVs: each is posted again.
    (0..3).for_each(|byte| send(&mut client, &mut server, to, byte));
    assert_eq!(received(&mut server, &mut client), [0; 0]);
    client.links.get_mut(&to).expect("it stays").token ^= 1;
    send(&mut client, &mut server, to, 9);
    assert_eq!(received(&mut server, &mut client), [9]);
}

#[test]
fn over_shared_memory_a_message_needs_its_connection_s_token() {
    only_the_right_token_is_received(Provider::Shm);
}

#[test]
fn over_tcp_a_message_needs_its_connection_s_token() {
    only_the_right_token_is_received(Provider::Tcp);
}

/// What is sent to it is not received by anybody, and the slot comes back.
#[test]
fn a_peer_that_was_left_keeps_no_slot() {
    let Some((mut server, client, from, _)) = pair(Provider::Shm) else { return };
    server.leave(from);
    drop(client);
    let slot = server.slab().take().expect("it is free");
    server.send(from, slot, 1).expect("it is lost");
    let mut completions = Vec::new();
    server.poll(&mut completions);
    assert!(completions.iter().any(|one| matches!(one, Completion::Sent(_))), "{completions:?}");
    assert!(server.links.is_empty() && server.tokens.is_empty());
}

#[test]
fn opened_again_it_has_all_slots_and_no_peer() {
    let Some((mut server, _client, from, _)) = pair(Provider::Shm) else { return };
    for _ in 0..2 {
        let slot = server.slab().take().expect("it is free");
        server.post(slot);
    }
    // As if the provider kept a message to a peer that has ended.
    let slot = server.slab().take().expect("it is free");
    let index = slot.index();
    server.uses[index] = Use::Send(slot, from);
    server.links.get_mut(&from).expect("it has met the client").pending = 1;
    server.reopen().expect("it was opened before");
    let mut completions = Vec::new();
    server.poll(&mut completions);
    assert!(
        matches!(completions[..], [Completion::Sent(_), Completion::Left(_)]),
        "{completions:?}"
    );
    assert_eq!(server.uses.iter().filter(|used| matches!(used, Use::Receive(_))).count(), 2);
}

#[test]
fn a_waker_ends_a_wait_of_each_kind() {
    let Some((mut server, _client, ..)) = pair(Provider::Shm) else { return };
    for spin in [Duration::ZERO, PATIENCE] {
        let (waker, begun) = (server.waker(), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                waker.wake_by_ref();
            });
            server.wait(spin, PATIENCE);
        });
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
        assert!(begun.elapsed() >= Duration::from_millis(20), "{:?}", begun.elapsed());
        server.poll(&mut Vec::new());
    }
}

/// A client that names another machine's address must not make the server connect to that.
#[test]
fn a_client_that_names_another_machine_is_sent_away() {
    let listener = Listener::bind("127.0.0.1:0").expect("it is free");
    let Ok(mut server) = Fabric::on(Provider::Tcp, listener, 4, 4, 64) else {
        return eprintln!("skipped: no provider tcp");
    };
    let address = server.address();
    let (_, address) = Provider::split(std::str::from_utf8(&address).expect("a text"));
    let family = (libc::AF_INET as u16).to_ne_bytes();
    for (ip, is_taken) in [([10, 0, 0, 7], false), ([127, 0, 0, 1], true)] {
        let mut client = std::net::TcpStream::connect(address).expect("it listens");
        let name = [&family[..], &[9, 9], &ip, &[0; 8]].concat();
        let mut frame = [0; 64];
        let len = Control::Greeting { token: 1, name: &name }.write(&mut frame).expect("it fits");
        let frame = [&(len as u32).to_le_bytes()[..], &frame[..len]].concat();
        std::io::Write::write_all(&mut client, &frame).expect("there is room");
        let (mut completions, begun) = (Vec::new(), Instant::now());
        while server.links.is_empty() && begun.elapsed() < Duration::from_millis(300) {
            server.wait(Duration::ZERO, Duration::from_millis(20));
            server.poll(&mut completions);
        }
        let is_left = completions.iter().any(|one| matches!(one, Completion::Left(_)));
        assert_eq!((server.links.len() == 1, !is_left), (is_taken, is_taken), "{completions:?}");
    }
}
