// Redsync: mutexes that exclude, extend, and are lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
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
	sync1 := redsync.New(goredis.NewPool(client))
	counted, inside := 0, 0
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			mutex := sync1.NewMutex("counted", redsync.WithTries(2000), redsync.WithRetryDelay(5*time.Millisecond))
			for range 5 {
				ensure(mutex.Lock() == nil, "the lock is not had")
				inside++
				ensure(inside == 1, "two hold the lock")
				before := counted
				time.Sleep(time.Millisecond)
				counted = before + 1
				inside--
				ok, err := mutex.Unlock()
				ensure(ok && err == nil, "the lock is lost: %v", err)
			}
		})
	}
	group.Wait()
	ensure(counted == 100, "%d of 100 turns are counted", counted)
	fmt.Println("ok: redsync lets one at a time in")

	once := []redsync.Option{redsync.WithTries(1), redsync.WithExpiry(300 * time.Millisecond)}
	first, second := sync1.NewMutex("short", once...), sync1.NewMutex("short", once...)
	ensure(first.Lock() == nil, "the lock is not had")
	var taken *redsync.ErrTaken
	ensure(errors.As(second.Lock(), &taken), "a held lock is had")
	time.Sleep(200 * time.Millisecond)
	ok, err := first.Extend()
	ensure(ok && err == nil, "the lock is not extended: %v", err)
	time.Sleep(200 * time.Millisecond)
	ensure(errors.As(second.TryLock(), &taken), "an extended lock ends")
	time.Sleep(200 * time.Millisecond)
	ensure(second.TryLock() == nil, "a lock does not end")
	ok, err = first.Extend()
	ensure(!ok && err != nil, "a lost lock is extended")
	ok, err = first.Unlock()
	ensure(!ok && err != nil, "a lost lock is unlocked")
	ensure(client.FlushDB(ctx).Err() == nil, "the database is not flushed")
	fmt.Println("ok: redsync extends locks and notices lost ones")
}
