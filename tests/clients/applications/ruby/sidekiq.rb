# Sidekiq: jobs that are run, retried, scheduled and buried, in a process of its own.
require "sidekiq"
require "sidekiq/api"
require "redis"

# The gem of Debian warns of calls that a later one drops.
Redis.silence_deprecations = true

URL = "redis://127.0.0.1:#{ENV["CHECKED_PORT"] || ARGV[0]}/1"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.options[:average_scheduled_poll_interval] = 1
  config.logger.level = Logger::FATAL
end

def redis(&block)
  Sidekiq.redis(&block)
end

class Adds
  include Sidekiq::Worker
  def perform(a, b)
    Sidekiq.redis { |r| r.rpush("sums", a + b) }
  end
end

class FailsOnce
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 1 }
  def perform
    tries = Sidekiq.redis { |r| r.incr("tries") }
    raise "it fails on purpose" if tries < 2
  end
end

class Fails
  include Sidekiq::Worker
  sidekiq_options retry: 0, queue: "critical"
  def perform
    raise "it fails on purpose"
  end
end

def wait_until(what)
  limit = Time.now + 30
  until yield
    raise "never: #{what}" if Time.now > limit
    sleep 0.05
  end
end

def check(ok, what)
  raise what unless ok
end

def run
  redis { |r| r.flushdb }
  100.times { |n| Adds.perform_async(n, 1) }
  Adds.perform_bulk((0...50).map { |n| [n, 0] })
  FailsOnce.perform_async
  Fails.perform_async
  late = Adds.perform_in(2, 1_000, 1)
  never = Adds.perform_in(3_600, 0, 0)
  check(Sidekiq::Queue.new.size == 151, "#{Sidekiq::Queue.new.size} jobs wait, not 151")
  check(Sidekiq::ScheduledSet.new.size == 2, "#{Sidekiq::ScheduledSet.new.size} jobs are scheduled, not 2")
  check(Sidekiq::ScheduledSet.new.find_job(late).args == [1_000, 1], "a scheduled job is not found")
  check(Sidekiq::ScheduledSet.new.find_job(never).delete, "a scheduled job is not deleted")
  first = Sidekiq::Queue.new.first
  check(Sidekiq::Queue.new.find_job(first.jid).item["class"] == first.klass, "a waiting job is not found")
  puts "ok: Sidekiq queues, schedules, finds and deletes jobs"

  program = File.expand_path(__FILE__)
  pid = spawn({ "CHECKED_PORT" => ARGV[0] }, "sidekiq", "-r", program, "-q", "critical,3", "-q", "default", "-c", "4",
              out: File::NULL)
  begin
    started = Time.now
    wait_until("all jobs run") { redis { |r| r.llen("sums") } == 151 && redis { |r| r.get("tries") } == "2" }
    sums = redis { |r| r.lrange("sums", 0, -1) }.map(&:to_i)
    check(sums.sum == (1..100).sum + (0...50).sum + 1_001, "the sums are wrong")
    check(Time.now - started >= 1, "a scheduled job runs too early")
    wait_until("a job is retried, another is buried") do
      Sidekiq::RetrySet.new.size.zero? && Sidekiq::DeadSet.new.size == 1
    end
    puts "ok: Sidekiq runs, retries, delays and buries jobs"
    check(Sidekiq::DeadSet.new.first.klass == "Fails", "another job is buried")
    wait_until("the process is known") { Sidekiq::ProcessSet.new.size == 1 }
    wait_until("it has counted its jobs") { Sidekiq::Stats.new.processed == 154 }
    check(Sidekiq::Stats.new.failed == 2, "#{Sidekiq::Stats.new.failed} have failed, not 2")
    Sidekiq::DeadSet.new.first.retry
    wait_until("a buried job fails again") { Sidekiq::Stats.new.failed == 3 }
    puts "ok: Sidekiq counts, and runs buried jobs again"
  ensure
    Process.kill("TERM", pid)
    Process.wait(pid)
  end
  wait_until("the process is gone") { Sidekiq::ProcessSet.new.size.zero? }
  redis { |r| r.flushdb }
end

# The jobs' process loads this file as well, for their classes.
if $PROGRAM_NAME == __FILE__
  Sidekiq.logger.level = Logger::FATAL
  run
end
