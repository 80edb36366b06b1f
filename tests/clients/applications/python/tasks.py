"""The tasks that Celery's, huey's and dramatiq's workers run."""

import os

import celery
import dramatiq
import huey
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as Limits
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

URL = f"redis://127.0.0.1:{os.environ['CHECKED_PORT']}"

app = celery.Celery("tasks", broker=f"{URL}/2", backend=f"{URL}/3")
app.conf.update(
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    broker_transport_options={"visibility_timeout": 60, "priority_steps": [0, 5]},
)


@app.task
def add(a, b):
    return a + b


@app.task(bind=True, max_retries=3)
def fails_twice(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task
def total(numbers):
    return sum(numbers)


broker = RedisBroker(url=f"{URL}/4")
broker.add_middleware(Results(backend=RedisBackend(url=f"{URL}/4")))
dramatiq.set_broker(broker)
limits = Limits(url=f"{URL}/4")


@dramatiq.actor(store_results=True)
def double(n):
    with ConcurrentRateLimiter(limits, "two-at-a-time", limit=2).acquire(raise_on_failure=False):
        return 2 * n


@dramatiq.actor(max_retries=3, min_backoff=50, max_backoff=100)
def fails_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise RuntimeError("the first time it fails")
    with open(path, "w") as file:
        file.write("done")


queue = huey.RedisHuey("checked", url=f"{URL}/5")
urgent = huey.PriorityRedisHuey("urgent", url=f"{URL}/5")


@queue.task(retries=1, retry_delay=0)
def triple(n):
    return 3 * n


@urgent.task()
def named(name):
    order.append(name)
    return name


order = []
