"""Has applications do real work: queues with their workers, caches, rate limits, leaderboards."""

import logging
import os
import subprocess
import sys
import tempfile
import time

PORT = sys.argv[1]
os.environ["CHECKED_PORT"] = PORT
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import redis  # noqa: E402

import tasks  # noqa: E402

# Tasks fail on purpose.
logging.disable(logging.CRITICAL)


def wait_until(what, seconds=20):
    """Asks until it is true."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it has not come true in time"
        time.sleep(0.02)


def celery_runs_chains_chords_retries_and_priorities():
    from celery import chain, chord, group

    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool=threads", "--concurrency=2",
         "--loglevel=ERROR", "--without-heartbeat"],
        cwd=os.path.dirname(os.path.abspath(__file__)),
    )
    try:
        add, total = tasks.add, tasks.total
        assert add.delay(2, 3).get(timeout=30) == 5
        assert tasks.fails_twice.delay().get(timeout=30) == 2
        assert chain(add.s(1, 1), add.s(10), add.s(100)).delay().get(timeout=30) == 112
        assert group(add.s(i, i) for i in range(20)).delay().get(timeout=30) == [2 * i for i in range(20)]
        assert chord((add.s(i, 1) for i in range(10)), total.s()).delay().get(timeout=30) == 55
        later = add.apply_async((1, 2), countdown=1)
        urgent = add.apply_async((3, 4), priority=5)
        assert (urgent.get(timeout=30), later.get(timeout=30)) == (7, 3)
        revoked = add.apply_async((1, 2), countdown=60)
        revoked.revoke()
        assert tasks.app.control.inspect(timeout=5).ping()
        assert tasks.app.control.purge() is not None
    finally:
        worker.terminate()
        worker.wait(30)


def dramatiq_runs_actors_retries_delays_and_results():
    from dramatiq import Worker, group

    worker = Worker(tasks.broker, worker_threads=2, worker_timeout=100)
    worker.start()
    try:
        results = group(tasks.double.message(n) for n in range(20)).run()
        assert list(results.get_results(block=True, timeout=20_000)) == [2 * n for n in range(20)]
        path = os.path.join(tempfile.mkdtemp(), "done")
        tasks.fails_once.send(path)
        wait_until(lambda: os.path.exists(path) and open(path).read() == "done")
        late = tasks.double.send_with_options(args=(21,), delay=300)
        assert late.get_result(block=True, timeout=20_000) == 42
        tasks.broker.join(tasks.double.queue_name, timeout=20_000)
    finally:
        worker.stop()


def huey_runs_tasks_schedules_and_priorities():
    for instance in (tasks.queue, tasks.urgent):
        instance.flush()
    low, high = tasks.named.schedule(("low",), priority=1, delay=0), tasks.named("high", priority=9)
    assert tasks.urgent.pending_count() + tasks.urgent.scheduled_count() >= 1
    consumers = [instance.create_consumer(workers=1, initial_delay=0.01, max_delay=0.05)
                 for instance in (tasks.queue, tasks.urgent)]
    for consumer in consumers:
        consumer.start()
    try:
        assert [r.get(blocking=True, timeout=20) for r in [tasks.triple(n) for n in range(10)]] == [
            3 * n for n in range(10)]
        assert high.get(blocking=True, timeout=20) == "high"
        assert low.get(blocking=True, timeout=20) == "low"
        late = tasks.triple.schedule((5,), delay=1)
        assert late.get(blocking=True, timeout=20) == 15
        with tasks.queue.lock_task("lock"):
            assert tasks.queue.is_locked("lock")
    finally:
        for consumer in consumers:
            consumer.stop(graceful=True)


def django_caches_in_database_1():
    import django
    from django.conf import settings

    own = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": f"{tasks.URL}/1"}
    theirs = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": f"{tasks.URL}/7"}
    settings.configure(CACHES={"default": own, "theirs": theirs}, INSTALLED_APPS=["django.contrib.sessions"],
                       SESSION_ENGINE="django.contrib.sessions.backends.cache", SECRET_KEY="checked")
    django.setup()
    from django.contrib.sessions.backends.cache import SessionStore
    from django.core.cache import caches

    for name in ("default", "theirs"):
        cache = caches[name]
        cache.clear()
        cache.set("a", {"of": [1, 2]}, timeout=60)
        cache.set_many({"b": 2, "c": "three"})
        assert cache.get_many(["a", "b", "c", "d"]) == {"a": {"of": [1, 2]}, "b": 2, "c": "three"}
        assert cache.add("a", 1) is False and cache.incr("b", 5) == 7
        assert cache.get_or_set("e", lambda: "made") == "made"
        assert cache.touch("a", 120) is True
        cache.delete_many(["a", "b"])
        assert cache.has_key("a") is False
    theirs = caches["theirs"]
    theirs.set_many({f"key:{i}": i for i in range(100)})
    assert len(list(theirs.iter_keys("key:*"))) == 100
    assert theirs.delete_pattern("key:*") == 100
    with theirs.lock("lock", timeout=5):
        assert theirs.get("e") == "made"
    assert theirs.sadd("tags", "a", "b") == 2 and theirs.smembers("tags") == {"a", "b"}
    session = SessionStore()
    session["user"] = 7
    session.save()
    assert SessionStore(session.session_key)["user"] == 7
    r = redis.Redis(port=int(PORT))
    assert r.info("keyspace")["db1"]["keys"] >= 2
    caches["default"].clear()
    assert "db1" not in r.info("keyspace")


def limits_counts_in_moving_windows():
    from limits import RateLimitItemPerSecond, strategies
    from limits.storage import storage_from_string

    storage = storage_from_string(f"{tasks.URL}/8")
    limit = RateLimitItemPerSecond(5, 2)
    for strategy in (strategies.MovingWindowRateLimiter, strategies.SlidingWindowCounterRateLimiter,
                     strategies.FixedWindowRateLimiter):
        limiter = strategy(storage)
        assert [limiter.hit(limit, strategy.__name__) for _ in range(7)] == [True] * 5 + [False] * 2
        assert limiter.get_window_stats(limit, strategy.__name__).remaining == 0
    time.sleep(2.1)
    assert strategies.MovingWindowRateLimiter(storage).hit(limit, "MovingWindowRateLimiter")
    storage.reset()


def leaderboards_rank_and_feeds_are_cut():
    r = redis.Redis(port=int(PORT), db=9, decode_responses=True)
    r.flushdb()
    r.zadd("board", {f"player:{i}": i * 1.5 for i in range(1_000)})
    assert r.zincrby("board", 10_000, "player:3") == 10_004.5
    assert r.zrevrank("board", "player:3") == 0
    assert r.zrevrange("board", 0, 1, withscores=True) == [("player:3", 10_004.5), ("player:999", 1_498.5)]
    assert r.zcount("board", 0, 15) == 10
    r.zremrangebyrank("board", 0, 899)
    assert r.zcard("board") == 100
    for i in range(500):
        r.lpush("feed", i)
        r.ltrim("feed", 0, 99)
    assert r.llen("feed") == 100 and r.lrange("feed", 0, 2) == ["499", "498", "497"]
    r.sadd("a", *range(100))
    r.sadd("b", *range(50, 150))
    assert len(r.sinter("a", "b")) == 50 and r.sunionstore("c", "a", "b") == 150
    r.flushdb()


CHECKS = [
    celery_runs_chains_chords_retries_and_priorities,
    dramatiq_runs_actors_retries_delays_and_results,
    huey_runs_tasks_schedules_and_priorities,
    django_caches_in_database_1,
    limits_counts_in_moving_windows,
    leaderboards_rank_and_feeds_are_cut,
]

if __name__ == "__main__":
    for check in CHECKS:
        check()
        print(f"ok: {check.__name__.replace('_', ' ')}", flush=True)
