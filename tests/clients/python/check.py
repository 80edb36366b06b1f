"""Connects redis-py with its defaults and checks that it gets what it expects."""

import sys
import time

import redis
from redis.cache import CacheConfig


def ping(r):
    assert r.ping() is True


def hello(r, protocol):
    # redis-py gives the reply as a list of pairs in RESP2 and as a map in RESP3.
    reply = r.execute_command("HELLO", *([protocol] if protocol else []))
    if isinstance(reply, list):
        reply = dict(zip(reply[::2], reply[1::2]))
    fields = {as_text(k): v for k, v in reply.items()}
    assert as_text(fields["server"]) == "redis", fields
    assert protocol is None or fields["proto"] == protocol, fields
    assert fields["modules"] == [], fields


def as_text(value):
    return value.decode() if isinstance(value, bytes) else value


def set_get(r):
    assert r.set("py:greeting", b"hello\r\nworld\x00\xff") is True
    assert r.get("py:greeting") == b"hello\r\nworld\x00\xff"
    assert r.get("py:missing") is None
    assert r.set("py:greeting", "x", nx=True) is None
    assert r.set("py:greeting", "x", get=True) == b"hello\r\nworld\x00\xff"


def pipeline(r):
    r.delete("py:counter")
    pipe = r.pipeline(transaction=False)
    for i in range(100):
        pipe.set(f"py:p:{i}", i)
        pipe.incr("py:counter")
    replies = pipe.execute()
    assert replies[0::2] == [True] * 100
    assert replies[1::2] == list(range(1, 101))


def transaction(r):
    r.mset({"py:from": 90, "py:to": 10})
    with r.pipeline() as pipe:
        pipe.decrby("py:from", 5).incrby("py:to", 5).get("py:missing")
        assert pipe.execute() == [85, 15, None]
        written = []

        # The library calls this again until nobody has written in between.
        def double(pipe):
            n = int(pipe.get("py:to"))
            if not written:
                written.append(r.incr("py:to"))
            pipe.multi()
            pipe.set("py:to", 2 * n)

        assert r.transaction(double, "py:to") == [True]
        assert (written, r.get("py:to")) == ([16], b"32")
        pipe.set("py:text", "abc").incr("py:text").get("py:text")
        replies = pipe.execute(raise_on_error=False)
        assert replies[0] is True and replies[2] == b"abc"
        assert "not an integer" in str(replies[1]), replies
        pipe.watch("py:to")
        r.delete("py:to")
        pipe.multi()
        pipe.set("py:to", 1)
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("a watched key was removed")
    assert r.exists("py:to") == 0


def messages(r):
    with r.pubsub() as listener:
        listener.subscribe("py:news")
        listener.psubscribe("py:n*")
        # Messages come on another connection: wait for both confirmations.
        confirmed = [listener.get_message(timeout=20)["type"] for _ in range(2)]
        assert confirmed == ["subscribe", "psubscribe"], confirmed
        assert r.publish("py:news", b"hello\x00") == 2
        got = [listener.get_message(timeout=20) for _ in range(2)]
        assert [m["type"] for m in got] == ["message", "pmessage"], got
        assert all(m["data"] == b"hello\x00" for m in got), got
        assert (b"py:news", 1) in r.pubsub_numsub("py:news")
        listener.unsubscribe()
        listener.punsubscribe()
        assert [listener.get_message(timeout=20)["type"] for _ in range(2)]
    assert r.publish("py:news", "nobody") == 0


def many(r):
    assert r.mset({"py:a": 1, "py:b": 2}) is True
    assert r.mget("py:a", "py:missing", "py:b") == [b"1", None, b"2"]
    assert r.msetnx({"py:b": 3, "py:c": 3}) is False
    assert r.exists("py:a", "py:b", "py:c") == 2


def scan(r):
    found = set(r.scan_iter(match="py:p:*", count=10))
    assert found == {f"py:p:{i}".encode() for i in range(100)}, len(found)
    assert set(r.keys("py:p:?")) == {f"py:p:{i}".encode() for i in range(10)}


def expiry(r):
    r.set("py:e", "x")
    assert r.ttl("py:e") == -1 and r.ttl("py:missing") == -2
    assert r.expire("py:e", 100) is True
    assert 98 <= r.ttl("py:e") <= 100
    assert r.expire("py:e", 50, gt=True) is False
    assert r.expire("py:e", 200, gt=True) is True
    assert r.expire("py:e", 300, nx=True) is False
    at = int(time.time()) + 1000
    assert r.expireat("py:e", at) is True
    assert r.expiretime("py:e") == at
    assert r.pexpireat("py:e", at * 1000 + 7) is True
    assert r.pexpiretime("py:e") == at * 1000 + 7
    assert r.persist("py:e") is True and r.ttl("py:e") == -1
    assert r.pexpire("py:e", 150) is True
    assert 0 < r.pttl("py:e") <= 150
    # The library calls these two deprecated, the server does not.
    r.execute_command("SETEX", "py:f", 100, "x")
    r.execute_command("PSETEX", "py:g", 100_000, "x")
    assert r.getex("py:f", persist=True) == b"x" and r.ttl("py:f") == -1
    time.sleep(0.2)
    assert r.get("py:e") is None


def server(r):
    assert r.info()["loading"] == 0
    assert r.info("server")["redis_mode"] == "standalone"
    assert r.config_get("maxmemory")["maxmemory"] == "0"
    assert r.client_id() > 0
    assert any(c["lib-name"].startswith("redis-py") for c in r.client_list())
    assert r.dbsize() > 100
    assert isinstance(r.command_count(), int) and "get" in r.command()
    assert abs(r.time()[0] - time.time()) < 60


def errors(r):
    r.set("py:text", "abc")
    for call, text in [
        (lambda: r.incr("py:text"), "value is not an integer or out of range"),
        (lambda: r.execute_command("NONSENSE", "a"), "unknown command 'NONSENSE'"),
        (lambda: r.execute_command("SELECT", 16), "DB index is out of range"),
    ]:
        try:
            call()
        except redis.ResponseError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"no error, wanted: {text}")


def copies(port):
    # What is kept on the client's side is asked for again once somebody has changed it.
    caching = redis.Redis(port=port, protocol=3, socket_timeout=20, cache_config=CacheConfig())
    with caching as r, redis.Redis(port=port, socket_timeout=20) as other:
        for value in (b"1", b"2", b"3"):
            other.set("py:copy", value)
            wait_for(lambda: r.get("py:copy") == value)
            assert r.get_cache().size == 1 and r.get("py:copy") == value
        other.set("py:copy", 4, px=100)
        wait_for(lambda: r.get("py:copy") is None)


def wait_for(happened):
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: check.py PORT")
    port = int(sys.argv[1])
    for protocol in (None, 2, 3):
        options = {} if protocol is None else {"protocol": protocol}
        name = "its default" if protocol is None else protocol
        with redis.Redis(port=port, socket_timeout=20, **options) as client:
            steps = {
                "ping": ping,
                "hello": lambda r: hello(r, protocol),
                "set and get": set_get,
                "pipeline without transaction": pipeline,
                "transaction": transaction,
                "pub/sub": messages,
                "mset, mget, msetnx": many,
                "scan_iter and keys": scan,
                "expiry": expiry,
                "info, config, client list, command": server,
                "error texts": errors,
            }
            for what, run in steps.items():
                try:
                    run(client)
                except Exception as error:
                    sys.exit(f"FAILED: redis-py, protocol {name}: {what}: {error!r}")
                print(f"ok: redis-py, protocol {name}: {what}")
    try:
        copies(port)
    except Exception as error:
        sys.exit(f"FAILED: redis-py: copies on the client's side: {error!r}")
    print("ok: redis-py: copies on the client's side")


main()
