"""pymemcache against a running server: what an application does with it, with the library's defaults.

Takes the port of memcached's protocol, with `proxy` behind it that of a proxy, prints one line for each thing checked, and exits with another
code than 0 at the first failure.
"""

import sys
import time

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError, MemcacheIllegalInputError
from pymemcache.serde import pickle_serde


def check(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found!r}, not {expected!r}")
    print(f"ok: {what}")


def classic(client):
    check("delete_many", client.delete_many(["a", "b", "n", "bytes"], noreply=False), True)
    check("get of nothing", client.get("a"), None)
    check("set", client.set("a", b"1", noreply=False), True)
    check("get", client.get("a"), b"1")
    check("add", client.add("a", b"2", noreply=False), False)
    check("replace", client.replace("a", b"3", noreply=False), True)
    check("append", client.append("a", b"4", noreply=False), True)
    check("prepend", client.prepend("a", b"2", noreply=False), True)
    check("changed value", client.get("a"), b"234")
    binary = bytes(range(256)) * 40
    client.set("bytes", binary)
    check("bytes of all kinds", client.get("bytes"), binary)
    check("set_many", client.set_many({"a": b"x", "b": b"y"}, noreply=False), [])
    check("get_many", client.get_many(["a", "b", "none"]), {"a": b"x", "b": b"y"})
    many = {f"many:{i}": b"%d" % i for i in range(2000)}
    client.set_many(many)
    check("get_many of 2000", client.get_many(list(many)), many)


def versions(client):
    client.set("a", b"x", noreply=False)
    value, cas = client.gets("a")
    check("gets", value, b"x")
    check("cas", client.cas("a", b"y", cas, noreply=False), True)
    check("cas of what has changed", client.cas("a", b"z", cas, noreply=False), False)
    check("cas of nothing", client.cas("none", b"z", cas, noreply=False), None)
    check("gets_many", sorted(client.gets_many(["a", "none"])), ["a"])


def numbers(client):
    check("incr of nothing", client.incr("n", 1, noreply=False), None)
    client.set("n", b"10", noreply=False)
    check("incr", client.incr("n", 5, noreply=False), 15)
    check("decr", client.decr("n", 20, noreply=False), 0)
    client.set("n", b"text", noreply=False)
    try:
        client.incr("n", 1, noreply=False)
        sys.exit("incr of a text")
    except MemcacheClientError:
        print("ok: incr of a text")


def times(client):
    check("touch", client.touch("a", 100, noreply=False), True)
    check("touch of nothing", client.touch("none", 100, noreply=False), False)
    item = client.raw_command("gat 100 a", end_tokens=b"END\r\n")
    check("gat", item.strip(), b"VALUE a 0 1\r\ny")
    client.set("a", b"short", expire=1, noreply=False)
    deadline = time.monotonic() + 20
    while client.get("a") is not None:
        if time.monotonic() > deadline:
            sys.exit("a value outlives its time")
        time.sleep(0.05)
    print("ok: a value ends with its time")


def server(client):
    check("version", client.version().startswith(b"1.6."), True)
    stats = client.stats()
    check("stats", stats[b"cmd_get"] > 0 and stats[b"curr_items"] > 0, True)
    check("stats settings", client.stats("settings")[b"cas_enabled"], b"yes")
    check("meta command", client.raw_command("mn", end_tokens=b"\r\n"), b"MN")
    check("cache_memlimit", client.cache_memlimit(64), True)
    check("a key that is none", refuses(lambda: client.get("a key")), True)


def refuses(run):
    try:
        return run() is not True
    except (MemcacheClientError, MemcacheIllegalInputError):
        return True


def objects(port):
    client = Client(("127.0.0.1", port), serde=pickle_serde)
    thing = {"name": "x", "list": [1, 2.5, None]}
    client.set("object", thing, noreply=False)
    check("objects by their flags", client.get("object"), thing)
    client.set("number", 42, noreply=False)
    check("numbers by their flags", client.get("number"), 42)


def main():
    port = int(sys.argv[1])
    client = Client(("127.0.0.1", port))
    classic(client)
    versions(client)
    numbers(client)
    times(client)
    # A proxy has no items to tell of.
    if sys.argv[2:] != ["proxy"]:
        server(client)
    objects(port)
    pooled = PooledClient(("127.0.0.1", port), max_pool_size=4)
    check("a pool", pooled.set("pool", b"1", noreply=False) and pooled.get("pool"), b"1")
    hashed = HashClient([("127.0.0.1", port)])
    check("a ring of one", hashed.set("ring", b"1", noreply=False) and hashed.get("ring"), b"1")
    check("flush_all", client.flush_all(noreply=False), True)
    check("nothing is left", client.get("ring"), None)


main()
