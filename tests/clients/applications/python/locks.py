"""Locks of three libraries: redis-py's, python-redis-lock's and pottery's, and pottery's containers."""

import sys
import threading
import time
import warnings

import redis
import redis_lock
from pottery import NextID, RedisDeque, RedisDict, RedisList, RedisSet, Redlock
from redis.exceptions import LockNotOwnedError

# It warns of each operation whose time depends on the size.
warnings.simplefilter("ignore")

client = redis.Redis(port=int(sys.argv[1]), db=1)


def one_at_a_time(make):
    """Has threads take turns: a lock that lets two in loses a count."""
    counted = {"of": 0, "inside": 0}

    def count():
        for _ in range(5):
            with make():
                counted["inside"] += 1
                assert counted["inside"] == 1, "two hold the lock"
                before = counted["of"]
                time.sleep(0.002)
                counted["of"] = before + 1
                counted["inside"] -= 1

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counted["of"] == 30, f"{counted['of']} of 30 turns are counted"


def redis_py_locks_extend_and_are_lost():
    one_at_a_time(lambda: client.lock("a", timeout=10, sleep=0.005))
    lock = client.lock("b", timeout=1)
    assert lock.acquire() and not client.lock("b").acquire(blocking_timeout=0.1)
    assert lock.extend(10) and 9_000 < client.pttl("b") <= 11_000
    assert lock.reacquire() and client.pttl("b") <= 1_000
    assert lock.owned() and lock.locked()
    client.set("b", "another")
    for wrong in (lambda: lock.extend(1), lock.reacquire, lock.release):
        try:
            wrong()
            raise AssertionError("a lost lock is held")
        except LockNotOwnedError:
            pass
    assert client.get("b") == b"another"


def python_redis_lock_wakes_waiters_and_renews():
    one_at_a_time(lambda: redis_lock.Lock(client, "c", expire=10))
    lock = redis_lock.Lock(client, "d", expire=1, auto_renewal=True)
    assert lock.acquire(blocking=False)
    time.sleep(1.5)
    assert not redis_lock.Lock(client, "d").acquire(blocking=False), "the lock is not renewed"
    waited = []
    waiter = threading.Thread(target=lambda: waited.append(redis_lock.Lock(client, "d", expire=5).acquire(timeout=4)))
    waiter.start()
    time.sleep(0.1)
    lock.release()
    waiter.join(5)
    assert waited == [True]
    redis_lock.reset_all(client)
    assert redis_lock.Lock(client, "d", expire=5).acquire(blocking=False)


def pottery_locks_and_keeps_containers():
    one_at_a_time(lambda: Redlock(key="e", masters={client}, auto_release_time=10))
    ids = NextID(key="ids", masters={client})
    assert [next(ids), next(ids)] == [1, 2]
    words = RedisDict({"a": 1}, redis=client, key="words")
    words.update(b=[2, 3])
    assert words == {"a": 1, "b": [2, 3]} and words.pop("a") == 1 and len(words) == 1
    numbers = RedisList([3, 1, 2], redis=client, key="numbers")
    numbers.append(9)
    numbers.insert(1, 7)
    del numbers[0]
    numbers.sort()
    assert numbers == [1, 2, 7, 9] and numbers[1:3] == [2, 7]
    tags = RedisSet({"x", "y"}, redis=client, key="tags")
    assert tags == {"x", "y"} and "x" in tags and tags.pop() in {"x", "y"}
    queue = RedisDeque("abc", maxlen=3, redis=client, key="deque")
    queue.append("d")
    queue.rotate(1)
    assert list(queue) == ["d", "b", "c"]
    client.flushdb()


if __name__ == "__main__":
    for check in (redis_py_locks_extend_and_are_lost, python_redis_lock_wakes_waiters_and_renews,
                  pottery_locks_and_keeps_containers):
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}", flush=True)
