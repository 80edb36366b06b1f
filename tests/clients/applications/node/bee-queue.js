// bee-queue: jobs with progress, retries, delays, and a stalled worker's job.
'use strict';

const assert = require('node:assert');
const { once } = require('node:events');
const Queue = require('bee-queue');

const redis = { host: '127.0.0.1', port: Number(process.argv[2]), db: 1 };
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function finished(job) {
  const [result] = await once(job, 'succeeded');
  return result;
}

async function jobsRunAndReport() {
  const queue = new Queue('sums', { redis, activateDelayedJobs: true });
  await queue.ready();
  let progress = 0;
  queue.process(4, async (job) => {
    job.reportProgress({ half: true });
    return job.data.a + job.data.b;
  });
  const jobs = Array.from({ length: 100 }, (_, n) => queue.createJob({ a: n, b: 1 }));
  const results = jobs.map(finished);
  jobs.forEach((job) => job.on('progress', () => { progress += 1; }));
  const failed = await queue.saveAll(jobs);
  assert.equal(failed.size, 0);
  assert.deepEqual(await Promise.all(results), jobs.map((_, n) => n + 1));
  assert.equal(progress, 100);
  const health = await queue.checkHealth();
  assert.equal(health.succeeded, 100);
  assert.equal(health.newestJob, 100);
  assert.equal((await queue.getJobs('succeeded', { size: 500 })).length, 100);

  const twice = queue.createJob({ a: 1, b: 1 }).setId('same');
  assert.ok((await twice.save()).id);
  assert.equal((await queue.createJob({ a: 1, b: 1 }).setId('same').save()).id, null);

  const start = Date.now();
  const late = queue.createJob({ a: 40, b: 2 }).delayUntil(start + 700);
  const lateResult = finished(late);
  await late.save();
  assert.equal(await lateResult, 42);
  assert.ok(Date.now() - start >= 700, 'the delayed job ran too early');
  await queue.destroy();
  await queue.close();
}

async function failedJobsAreRetried() {
  const queue = new Queue('retries', { redis, activateDelayedJobs: true });
  let tries = 0;
  queue.process(async (job) => {
    tries += 1;
    if (job.data.never || tries < 3) throw new Error('it fails on purpose');
    return tries;
  });
  const job = queue.createJob({}).retries(3).backoff('fixed', 100);
  const result = finished(job);
  await job.save();
  assert.equal(await result, 3);
  const lost = queue.createJob({ never: true }).retries(1);
  const failure = once(lost, 'failed');
  await lost.save();
  const [error] = await failure;
  assert.equal(error.message, 'it fails on purpose');
  assert.equal((await queue.checkHealth()).failed, 1);
  await queue.destroy();
  await queue.close();
}

async function stalledJobsRunAgain() {
  const settings = { redis, stallInterval: 400 };
  const dead = new Queue('stalls', settings);
  dead.process(() => new Promise(() => {}));
  const taken = new Promise((done) => dead.on('stalled', done));
  const job = await new Queue('stalls', { ...settings, isWorker: false }).createJob({ n: 7 }).save();
  while ((await dead.checkHealth()).active === 0) await sleep(10);
  // The worker dies with its job.
  await dead.close(1).catch(() => {});
  const alive = new Queue('stalls', settings);
  const done = new Promise((resolve) => alive.on('succeeded', (j, result) => resolve([j.id, result])));
  alive.process(async (j) => j.data.n * 6);
  const checks = setInterval(() => alive.checkStalledJobs().catch(() => {}), 200);
  assert.deepEqual(await done, [job.id, 42]);
  clearInterval(checks);
  void taken;
  await alive.destroy();
  await alive.close();
}

(async () => {
  await jobsRunAndReport();
  console.log('ok: bee-queue runs jobs, at once and later');
  await failedJobsAreRetried();
  console.log('ok: bee-queue retries failed jobs');
  await stalledJobsRunAgain();
  console.log('ok: bee-queue runs the job of a dead worker again');
  process.exit(0);
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
