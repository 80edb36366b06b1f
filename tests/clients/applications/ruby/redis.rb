# Debian's redis gem: the types, transactions, scripts, blocking pops and pub/sub.
require "redis"

Redis.silence_deprecations = true

URL = "redis://127.0.0.1:#{ARGV[0]}/1"
CLIENT = Redis.new(url: URL)

def check(ok, what)
  raise what unless ok
end

def types
  CLIENT.set("text", "value", ex: 60)
  check(CLIENT.ttl("text").between?(50, 60), "the time")
  CLIENT.rpush("list", %w[a b c])
  check(CLIENT.lmove("list", "other", "LEFT", "RIGHT") == "a" && CLIENT.lrange("list", 0, -1) == %w[b c], "the list")
  CLIENT.mapped_hmset("hash", "a" => 1, "b" => 2)
  check(CLIENT.hgetall("hash") == { "a" => "1", "b" => "2" } && CLIENT.hincrby("hash", "a", 4) == 5, "the hash")
  CLIENT.sadd("set", %w[x y z])
  check(CLIENT.smembers("set").sort == %w[x y z] && CLIENT.srem("set", "x"), "the set")
  CLIENT.zadd("board", [[1.5, "one"], [3, "three"]])
  check(CLIENT.zrange("board", 0, -1, with_scores: true) == [["one", 1.5], ["three", 3.0]], "the sorted set")
  check(CLIENT.zpopmax("board") == ["three", 3.0], "the highest")
  check(CLIENT.scan_each.to_a.sort == %w[board hash list other set text], "the scan")
  check(CLIENT.hscan_each("hash").to_a.sort == [%w[a 5], %w[b 2]], "the scan of a hash")
  check(CLIENT.sort("list", order: "DESC ALPHA") == %w[c b], "the sort")
end

def transactions
  results = CLIENT.multi do |transaction|
    transaction.set("n", 1)
    transaction.incrby("n", 4)
  end
  check(results == ["OK", 5], "the transaction")
  lost = CLIENT.watch("n") do
    Redis.new(url: URL).set("n", 9)
    CLIENT.multi { |transaction| transaction.set("n", 10) }
  end
  check(lost.nil? && CLIENT.get("n") == "9", "a watched key changes unseen")
  check(CLIENT.pipelined { |pipe| 100.times { pipe.incr("n") } }.last == 109, "the pipeline")
  check(CLIENT.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", keys: ["n"], argv: [1]) == 110, "the script")
end

def waiting
  popped = Thread.new { Redis.new(url: URL).blpop("queue", timeout: 10) }
  sleep 0.1
  CLIENT.rpush("queue", "job")
  check(popped.value == %w[queue job], "the blocking pop")
  heard = Queue.new
  listener = Redis.new(url: URL)
  thread = Thread.new do
    listener.subscribe("news") do |on|
      on.subscribe { heard << :ready }
      on.message { |_, message| heard << message; listener.unsubscribe }
    end
  end
  check(heard.pop == :ready && CLIENT.publish("news", "hello") == 1 && heard.pop == "hello", "the message")
  thread.join(10)
  CLIENT.flushdb
end

CLIENT.flushdb
types
puts "ok: Ruby's redis: the types"
transactions
puts "ok: Ruby's redis: transactions, pipelines and scripts"
waiting
puts "ok: Ruby's redis: blocking pops and messages"
