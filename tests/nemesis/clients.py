"""A group of clients for the nemesis, with redis-py: it does what clients.go does, by the same lines.

Each line of the input is a round to begin, or "pause"; each line of the output is an operation, as Op in history.go
describes it, or a word that answers a command.
"""

import argparse
import json
import random
import sys
import threading
import time

from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    ReadOnlyError,
    ResponseError,
    SlotNotCoveredError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

# As in clients.go.
KEYS_OF_ROUND = 12
KEYS_OF_ONE = 6
LONG = "1" * 2000
NONE = "-"
REST = 0.008
ANSWER_MAX = 0.75
PATIENCE = 30
COMPARE_AND_SET = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0"
)
# MOVED and MASTERDOWN have classes below these.
REFUSALS = (AskError, BusyLoadingError, ClusterDownError, ReadOnlyError, SlotNotCoveredError, TryAgainError)

output = threading.Lock()


def tell(line):
    with output:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def is_refusal(error):
    """Whether the error means that nothing was done."""
    if isinstance(error, REFUSALS):
        return True
    if isinstance(error, ResponseError):
        return str(error).startswith("CROSSSLOT")
    # No connection, so nothing was sent.
    return isinstance(error, (ConnectionError, TimeoutError)) and "connecting to" in str(error)


def ask(cluster, op):
    kind, key = op["kind"], op["key"]
    if kind == "get":
        value = cluster.get(key)
        return NONE if value is None else value
    if kind in ("set", "once"):
        cluster.set(key, op["new"])
        return ""
    if kind == "incr":
        return str(cluster.incr(key))
    if kind == "del":
        return str(cluster.delete(key))
    return str(cluster.eval(COMPARE_AND_SET, 1, key, op["old"], op["new"]))


def insist(cluster, op):
    """Asks until there is an answer or the fate is open. False if nothing was done for too long."""
    begun = time.monotonic()
    while True:
        op["start"] = time.monotonic_ns()
        try:
            op["value"] = ask(cluster, op)
            op["end"] = time.monotonic_ns()
            return True
        # Some of the library's exceptions have no other class.
        except Exception as error:
            op["end"] = time.monotonic_ns()
            if not is_refusal(error):
                op["unknown"] = True
                return True
        if time.monotonic() - begun > PATIENCE:
            return False
        op["tries"] += 1
        time.sleep(0.005)


def choose(draw, number, key, seen):
    op = {"client": number, "key": key, "kind": "get"}
    unique = str(number * 1_000_000 + draw.randrange(1_000_000) * 100)
    what = draw.randrange(10)
    if what < 2:
        op.update(kind="set", new=unique)
    elif what < 5:
        op.update(kind="incr")
    elif what < 6:
        op.update(kind="del")
    elif what < 7 and seen not in (None, NONE):
        op.update(kind="cas", old=seen, new=unique)
    return op


def write(op):
    # Histories stay small.
    for field in ("new", "value"):
        if op.get(field) == LONG:
            op[field] = "1"
    tell(json.dumps(op))


def client(cluster, number, round_, ends):
    """Works on keys of the round. It leaves a key alone after an operation of unknown fate."""
    draw = random.Random(time.monotonic_ns() + number)
    keys = [f"r{round_}:k{(number * 5 + at) % KEYS_OF_ROUND}" for at in range(KEYS_OF_ONE)]
    values, n = {}, 0
    while not ends.is_set():
        if n % 4 != 0 and keys:
            key = draw.choice(keys)
            op = choose(draw, number, key, values.get(key))
        else:
            op = {"client": number, "kind": "once", "key": f"r{round_}:once:{number}:{n}", "new": LONG}
        op.update(value="", tries=0)
        n += 1
        is_done = insist(cluster, op)
        is_unknown, kind, key = op.get("unknown", False), op["kind"], op["key"]
        if kind == "get" and not is_unknown:
            values[key] = op["value"]
        if kind == "set" or kind == "cas" and op["value"] == "1":
            values[key] = op["new"]
        if is_done and not (kind == "once" and is_unknown):
            write(op)
        if is_unknown and kind != "get" and key in keys:
            keys.remove(key)
        time.sleep(REST)


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--addresses", required=True)
    flags.add_argument("--numbers", required=True, help="of the clients, with commas")
    flags = flags.parse_args()
    nodes = [address.rsplit(":", 1) for address in flags.addresses.split(",")]
    # A write without an answer must not be sent again, as its fate would be open twice.
    cluster = RedisCluster(
        startup_nodes=[ClusterNode(host, int(port)) for host, port in nodes],
        retry=Retry(NoBackoff(), 0),
        socket_timeout=ANSWER_MAX,
        socket_connect_timeout=0.5,
        decode_responses=True,
    )
    ends, running = None, []
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "round":
            ends = threading.Event()
            numbers = [int(number) for number in flags.numbers.split(",")]
            running = [threading.Thread(target=client, args=(cluster, number, rest, ends)) for number in numbers]
            for thread in running:
                thread.start()
        elif word == "pause":
            if ends is not None:
                ends.set()
            for thread in running:
                thread.join()
            tell("paused")


main()
