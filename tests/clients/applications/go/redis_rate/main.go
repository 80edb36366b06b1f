// Redis_rate: a leaky bucket in one script, with its replies' times.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func ensure(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "failed: "+format+"\n", args...)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], DB: 1})
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.PerMinute(60)
	var allowed atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for range 20 {
		group.Go(func() {
			for range 10 {
				result, err := limiter.Allow(ctx, "many", limit)
				ensure(err == nil, "%v", err)
				allowed.Add(int64(result.Allowed))
			}
		})
	}
	group.Wait()
	// One more falls out of the bucket each second.
	more := int64(time.Since(start)/time.Second) + 1
	ensure(allowed.Load() >= 60 && allowed.Load() <= 60+more, "%d are allowed, not 60", allowed.Load())
	result, err := limiter.Allow(ctx, "many", limit)
	ensure(err == nil, "%v", err)
	if result.Allowed == 0 {
		ensure(result.RetryAfter > 0 && result.RetryAfter <= time.Second, "retry after %v", result.RetryAfter)
		ensure(result.ResetAfter > 55*time.Second, "reset after %v", result.ResetAfter)
	}
	fmt.Println("ok: redis_rate allows as many as its limit")

	result, err = limiter.AllowN(ctx, "some", redis_rate.PerHour(10), 7)
	ensure(err == nil && result.Allowed == 7 && result.Remaining == 3, "7 of 10: %+v, %v", result, err)
	result, err = limiter.AllowAtMost(ctx, "some", redis_rate.PerHour(10), 7)
	ensure(err == nil && result.Allowed == 3 && result.Remaining == 0, "the other 3: %+v, %v", result, err)
	result, err = limiter.AllowN(ctx, "some", redis_rate.PerHour(10), 1)
	ensure(err == nil && result.Allowed == 0, "the bucket is full: %+v, %v", result, err)
	ensure(limiter.Reset(ctx, "some") == nil, "it cannot be reset")
	fast := redis_rate.Limit{Rate: 1, Burst: 1, Period: 200 * time.Millisecond}
	for range 3 {
		result, err = limiter.Allow(ctx, "fast", fast)
		ensure(err == nil && result.Allowed == 1, "after its time: %+v, %v", result, err)
		time.Sleep(250 * time.Millisecond)
	}
	ensure(client.FlushDB(ctx).Err() == nil, "the database is not flushed")
	fmt.Println("ok: redis_rate takes parts, resets and goes on")
}
