"""Connects redis-py's client of a single server to a proxy before a cluster, kills a primary, and checks that the client
goes on and nothing is lost.

Takes the address of the proxy, and the nodes as address=pid, the one with the coordinator first.
"""

import os
import signal
import sys
import threading

import redis
from cluster import COUNTERS, GAP_MAX, Counter, wait_for_steps


def keys_everywhere(r):
    assert r.mset({f"py:k:{i}": i for i in range(300)}) is True
    assert r.mget([f"py:k:{i}" for i in range(300)]) == [str(i).encode() for i in range(300)]
    assert r.delete("py:k:0", "py:k:1", "py:k:none") == 2
    assert set(r.scan_iter(match="py:k:29*")) == {f"py:k:{i}".encode() for i in [29, *range(290, 300)]}
    assert r.dbsize() == 298


def pipeline(r):
    pipe = r.pipeline(transaction=False)
    for i in range(100):
        pipe.set(f"py:p:{i}", i)
        pipe.incr("py:counter")
    replies = pipe.execute()
    assert replies[0::2] == [True] * 100 and replies[1::2] == list(range(1, 101))


def transaction(r):
    with r.pipeline() as pipe:
        assert pipe.set("{t}a", 5).incr("{t}a").get("{t}none").execute() == [True, 6, None]
        tries = []

        # The library calls this again until no client has written in between.
        def double(pipe):
            n = int(pipe.get("{t}a"))
            if not tries:
                tries.append(r.incr("{t}a"))
            pipe.multi()
            pipe.set("{t}a", 2 * n)

        assert r.transaction(double, "{t}a") == [True]
        assert r.get("{t}a") == b"14"
        try:
            pipe.set("a", 1).set("b", 1).execute()
        except redis.exceptions.ResponseError as error:
            assert "CROSSSLOT" in str(error) or "slot" in str(error), error
        else:
            raise AssertionError("a transaction over several slots")


def scripts_and_locks(r):
    script = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert [script(keys=[f"py:s:{i}"], args=[i]) for i in range(20)] == list(range(20))
    with r.lock("py:lock", timeout=20, blocking_timeout=5):
        assert r.lock("py:lock", blocking_timeout=0.05).acquire() is False
    assert r.exists("py:lock") == 0


def queues(r):
    got = []
    taker = threading.Thread(target=lambda: got.append(r.blpop(["{q}1", "{q}2"], timeout=20)))
    taker.start()
    r.rpush("{q}2", "work")
    taker.join()
    assert got in ([(b"{q}2", b"work")], [[b"{q}2", b"work"]]), got
    assert r.blpop("py:none", timeout=0.1) is None


def messages(r):
    with r.pubsub() as listener:
        listener.subscribe("py:news")
        assert listener.get_message(timeout=20)["type"] == "subscribe"
        r.publish("py:news", b"hello\x00")
        got = listener.get_message(timeout=20)
        assert (got["type"], got["data"]) == ("message", b"hello\x00"), got


def outlives_a_primary(r, processes):
    counters = [Counter(r, f"py:counter:{i}") for i in range(COUNTERS)]
    for counter in counters:
        counter.start()
    wait_for_steps(counters, 100)
    owners = {r.execute_command("ROUTE", counter.key)[1].decode() for counter in counters}
    # The first node keeps the records: its death would stop the failover.
    doomed = next(owner for owner in owners if owner != next(iter(processes)))
    os.kill(processes[doomed], signal.SIGKILL)
    wait_for_steps(counters, 100)
    for counter in counters:
        counter.ends = True
        counter.join()
        assert counter.failure is None, counter.failure
        assert counter.gap < GAP_MAX, counter.gap


proxy, *nodes = sys.argv[1:]
processes = {address: int(pid) for address, pid in (node.split("=") for node in nodes)}
host, port = proxy.split(":")
for protocol in (2, 3):
    r = redis.Redis(host=host, port=int(port), protocol=protocol, socket_timeout=20)
    for check in (keys_everywhere, pipeline, transaction, scripts_and_locks, queues, messages):
        check(r)
        print(f"ok: RESP{protocol}, {check.__name__}")
    r.flushall()
outlives_a_primary(r, processes)
print("ok: the client outlives a primary")
