"""Connects redis-py to a proxy before a memcached, and pymemcache to one before a redis-server.

Takes the ports of the two proxies.
"""

import sys

import redis
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheServerError


def redis_before_memcached(port):
    r = redis.Redis(port=port)
    assert r.ping() is True
    assert r.set("a", b"\x00\r\n\xff", ex=100) is True
    assert r.get("a") == b"\x00\r\n\xff" and r.ttl("a") in (99, 100)
    assert r.set("a", 1, nx=True) is None and r.set("none", 1, xx=True) is None
    assert r.mset({f"k:{i}": i for i in range(100)}) is True
    assert r.mget([f"k:{i}" for i in range(100)]) == [str(i).encode() for i in range(100)]
    assert r.delete("k:0", "k:1", "none") == 2 and r.exists("k:2", "none") == 1
    assert [r.incr("n"), r.incrby("n", 9), r.decr("n")] == [1, 10, 9]
    assert r.append("p", "ab") == 2 and r.append("p", "c") == 3
    assert r.expire("p", 100) is True and r.expire("none", 100) is False
    pipe = r.pipeline(transaction=False)
    for i in range(200):
        pipe.set(f"p:{i}", i)
        pipe.get(f"p:{i}")
    replies = pipe.execute()
    assert replies[0::2] == [True] * 200 and replies[1::2] == [str(i).encode() for i in range(200)]
    try:
        r.lpush("l", 1)
    except redis.exceptions.ResponseError as error:
        assert "does not work for keys on a memcached server" in str(error), error
    else:
        raise AssertionError("a list on a memcached")


def memcached_before_redis(port):
    c = Client(("127.0.0.1", port), default_noreply=False)
    assert c.set("a", b"\x00\r\n\xff", expire=100) is True
    assert c.get("a") == b"\x00\r\n\xff" and c.get("none") is None
    assert c.add("a", "x") is False and c.replace("none", "x") is False
    assert c.append("a", "1") is True and c.prepend("a", "0") is True
    assert c.get("a") == b"0\x00\r\n\xff1"
    assert c.append("none", "1") is False
    assert c.set_many({f"k:{i}": str(i) for i in range(100)}) == []
    many = c.get_many([f"k:{i}" for i in range(100)])
    assert many == {f"k:{i}": str(i).encode() for i in range(100)}
    assert c.set("n", "10") is True and c.incr("n", 5) == 15 and c.decr("n", 20) == 0
    assert c.incr("none", 1) is None
    assert c.touch("a", 100) is True and c.touch("none", 100) is False
    assert c.delete("a") is True and c.delete("a") is False
    assert c.set("q", "v", noreply=True) is True and c.get("q") == b"v"
    try:
        c.gets("q")
    except MemcacheServerError as error:
        assert b"does not work for keys on a Redis server" in error.args[0], error
    else:
        raise AssertionError("a number for cas from a redis-server")
    assert c.flush_all() is True and c.get("q") is None


def main():
    ports = [int(port) for port in sys.argv[1:]]
    redis_before_memcached(ports[0])
    print("ok: redis-py before a memcached")
    memcached_before_redis(ports[1])
    print("ok: pymemcache before a redis-server")


main()
