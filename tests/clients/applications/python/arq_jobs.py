"""arq: jobs with results, retries, delays, unique ids, cron, and aborts."""

import asyncio
import logging
import sys
from datetime import timedelta

from arq import Retry, cron, create_pool
from arq.connections import RedisSettings
from arq.jobs import JobStatus
from arq.worker import Worker

SETTINGS = RedisSettings(port=int(sys.argv[1]), database=1)

# Jobs fail on purpose.
logging.disable(logging.CRITICAL)

ticks = []


async def add(ctx, a, b):
    return a + b


async def fails_twice(ctx):
    if ctx["job_try"] < 3:
        raise Retry(defer=0.1)
    return ctx["job_try"]


async def fails(ctx):
    raise ValueError("it fails on purpose")


async def sleeps(ctx):
    await asyncio.sleep(60)


async def tick(ctx):
    ticks.append(ctx["job_id"])


async def check():
    pool = await create_pool(SETTINGS)
    first = await pool.enqueue_job("add", 1, 2, _job_id="unique")
    assert await pool.enqueue_job("add", 1, 2, _job_id="unique") is None, "the same job is queued twice"
    assert await first.status() == JobStatus.queued
    late = await pool.enqueue_job("add", 3, 4, _defer_by=timedelta(seconds=1))
    assert await late.status() == JobStatus.deferred
    assert {job.function for job in await pool.queued_jobs()} == {"add"}
    worker = Worker(
        [add, fails_twice, fails, sleeps],
        redis_settings=SETTINGS,
        cron_jobs=[cron(tick, second=set(range(60)))],
        allow_abort_jobs=True,
        poll_delay=0.05,
        max_jobs=20,
        health_check_interval=1,
        handle_signals=False,
    )
    running = asyncio.create_task(worker.async_run())
    try:
        assert await first.result(timeout=20, poll_delay=0.05) == 3
        jobs = [await pool.enqueue_job("add", n, n) for n in range(50)]
        assert [await job.result(timeout=20, poll_delay=0.02) for job in jobs] == [2 * n for n in range(50)]
        retried = await pool.enqueue_job("fails_twice")
        assert await retried.result(timeout=20, poll_delay=0.05) == 3
        failed = await pool.enqueue_job("fails")
        try:
            await failed.result(timeout=20, poll_delay=0.05)
            raise AssertionError("a failed job has a result")
        except ValueError as error:
            assert str(error) == "it fails on purpose"
        assert await late.result(timeout=20, poll_delay=0.05) == 7
        long = await pool.enqueue_job("sleeps")
        while await long.status() != JobStatus.in_progress:
            await asyncio.sleep(0.02)
        assert await long.abort(timeout=20, poll_delay=0.05), "the job is not aborted"
        while not ticks:
            await asyncio.sleep(0.05)
        assert len(await pool.all_job_results()) >= 53
        while await pool.get("arq:queue:health-check") is None:
            await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await worker.close()
    await pool.flushdb()
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(check())
    print("ok: arq runs, delays, retries, repeats and aborts jobs", flush=True)
