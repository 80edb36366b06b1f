"""Connects redis-py's client of clusters, kills a primary, and checks that the client goes on and nothing is lost."""

import os
import signal
import sys
import threading
import time

from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisError

COUNTERS = 6
# The longest time without an acknowledged step, on a busy machine.
GAP_MAX = 20


class Counter(threading.Thread):
    """Counts a key up. A step without an answer may have been done or not; an acknowledged one is never lost."""

    def __init__(self, client, key):
        super().__init__(daemon=True)
        self.client, self.key = client, key
        self.last, self.open, self.steps, self.gap = 0, 0, 0, 0.0
        self.ends, self.failure = False, None

    def run(self):
        try:
            heard = time.monotonic()
            while not self.ends:
                try:
                    now = self.client.incr(self.key)
                # The library has tried again by itself, so several steps may be done.
                except RedisError:
                    self.open += 20
                    time.sleep(0.02)
                    continue
                # It also tries again without a word when a connection breaks.
                assert self.last < now <= self.last + 1 + self.open + 20, (self.key, self.last, now)
                self.gap = max(self.gap, time.monotonic() - heard)
                self.last, self.open, heard = now, 0, time.monotonic()
                self.steps += 1
        except Exception as error:
            self.failure = error


def wait_for_steps(counters, more):
    wanted = [counter.steps + more for counter in counters]
    until = time.monotonic() + 60
    while any(counter.steps < n for counter, n in zip(counters, wanted)):
        for counter in counters:
            if counter.failure:
                raise counter.failure
        assert time.monotonic() < until, [counter.steps for counter in counters]
        time.sleep(0.01)


def keys_everywhere(r):
    for i in range(300):
        assert r.set(f"py:k:{i}", i) is True
    assert [r.get(f"py:k:{i}") for i in range(300)] == [str(i).encode() for i in range(300)]
    assert len(r.get_primaries()) == 3


def pipeline(r):
    pipe = r.pipeline()
    for i in range(100):
        pipe.set(f"py:p:{i}", i)
        pipe.get(f"py:p:{i}")
    assert pipe.execute()[1::2] == [str(i).encode() for i in range(100)]


def hash_tag(r):
    assert r.mset({"{py}a": 1, "{py}b": 2}) is True
    assert r.mget("{py}a", "{py}b") == [b"1", b"2"]
    pipe = r.pipeline(transaction=True)
    pipe.incr("{py}a")
    pipe.incr("{py}b")
    assert pipe.execute() == [2, 3]


def across(r):
    try:
        r.execute_command("MGET", "py:1", "py:2", target_nodes=r.get_node_from_key("py:1"))
    except RedisError as error:
        assert "hash to the same slot" in str(error), error
        return
    raise AssertionError("keys of two slots were answered")


def failover(r, nodes):
    counters = [Counter(r, f"py:counter:{i}") for i in range(COUNTERS)]
    for counter in counters:
        counter.start()
    wait_for_steps(counters, 50)
    first = next(iter(nodes))
    owners = [r.get_node_from_key(counter.key) for counter in counters]
    doomed = next(owner for owner in owners if owner.name != first)
    # A replica that was held up may not take over.
    while r.get_redis_connection(doomed).info("cluster")["cluster_copies_in_sync"] < 2:
        time.sleep(0.01)
    os.kill(nodes[doomed.name], signal.SIGKILL)
    wait_for_steps(counters, 50)
    for counter in counters:
        counter.ends = True
    for counter in counters:
        counter.join()
        assert counter.failure is None, counter.failure
        now = int(r.get(counter.key))
        assert now >= counter.last, (counter.key, now, counter.last)
    gap = max(counter.gap for counter in counters)
    assert gap < GAP_MAX, gap
    print(f"the longest wait was {gap:.2f} s")
    values = [r.get(f"py:k:{i}") for i in range(300)]
    assert values == [str(i).encode() for i in range(300)], "keys are lost"


def main():
    nodes = dict(argument.split("=") for argument in sys.argv[1:])
    nodes = {address: int(pid) for address, pid in nodes.items()}
    if not nodes:
        sys.exit("usage: cluster.py ADDRESS=PID ...")
    host, port = next(iter(nodes)).rsplit(":", 1)
    with RedisCluster(startup_nodes=[ClusterNode(host, int(port))], socket_timeout=20) as client:
        steps = {
            "keys in all shards": keys_everywhere,
            "pipeline over shards": pipeline,
            "a hash tag": hash_tag,
            "keys of several slots are refused": across,
            "a primary is killed": lambda r: failover(r, nodes),
        }
        for what, run in steps.items():
            try:
                run(client)
            except Exception as error:
                sys.exit(f"FAILED: redis-py in a cluster: {what}: {error!r}")
            print(f"ok: redis-py in a cluster: {what}", flush=True)


if __name__ == "__main__":
    main()
