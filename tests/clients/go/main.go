// Connects go-redis with its defaults and checks that it gets what it expects.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "cluster" {
		checkCluster(os.Args[2:])
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . PORT, or go run . cluster ADDRESS=PID ...")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, protocol := range []int{0, 2, 3} {
		if err := check(ctx, os.Args[1], protocol); err != nil {
			fmt.Fprintf(os.Stderr, "FAILED: go-redis, protocol %d: %v\n", protocol, err)
			os.Exit(1)
		}
	}
}

// check runs every step with one protocol version; 0 is the library's own choice.
func check(ctx context.Context, port string, protocol int) error {
	name := "its default"
	if protocol != 0 {
		name = fmt.Sprint(protocol)
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Protocol: protocol})
	defer client.Close()
	steps := []struct {
		what string
		run  func(context.Context, *redis.Client) error
	}{
		{"ping", ping}, {"set and get", setGet}, {"missing key", missing},
		{"pipeline of 200 commands", pipeline}, {"mset and mget", many},
		{"transaction and watch", transaction}, {"pub/sub", messages},
		{"expiry", expiry}, {"scan", scan}, {"error text", wrong},
	}
	for _, step := range steps {
		if err := step.run(ctx, client); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Printf("ok: go-redis, protocol %s: %s\n", name, step.what)
	}
	return nil
}

func expect[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func ping(ctx context.Context, c *redis.Client) error {
	got, err := c.Ping(ctx).Result()
	return errors.Join(err, expect(got, "PONG"))
}

func setGet(ctx context.Context, c *redis.Client) error {
	if err := c.Set(ctx, "go:greeting", "hello\r\nworld", 0).Err(); err != nil {
		return err
	}
	got, err := c.Get(ctx, "go:greeting").Result()
	return errors.Join(err, expect(got, "hello\r\nworld"))
}

func missing(ctx context.Context, c *redis.Client) error {
	if err := c.Get(ctx, "go:missing").Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("got %v, want redis.Nil", err)
	}
	return nil
}

func pipeline(ctx context.Context, c *redis.Client) error {
	c.Del(ctx, "go:counter")
	pipe := c.Pipeline()
	for i := 0; i < 100; i++ {
		pipe.Set(ctx, fmt.Sprint("go:p:", i), i, 0)
		pipe.Incr(ctx, "go:counter")
	}
	replies, err := pipe.Exec(ctx)
	if err != nil {
		return err
	}
	return expect(replies[199].(*redis.IntCmd).Val(), 100)
}

func transaction(ctx context.Context, c *redis.Client) error {
	if err := c.MSet(ctx, "go:from", 90, "go:to", 10).Err(); err != nil {
		return err
	}
	replies, err := c.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.DecrBy(ctx, "go:from", 5)
		pipe.IncrBy(ctx, "go:to", 5)
		return nil
	})
	if err := errors.Join(err, expect(len(replies), 2)); err != nil {
		return err
	}
	if err := expect(replies[1].(*redis.IntCmd).Val(), 15); err != nil {
		return err
	}
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		if err := c.Set(ctx, "go:to", 1, 0).Err(); err != nil {
			return err
		}
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "go:to", 2, 0).Err()
		})
		return err
	}, "go:to")
	if !errors.Is(err, redis.TxFailedErr) {
		return fmt.Errorf("a watched key was written, and Watch answers %v", err)
	}
	got, err := c.Get(ctx, "go:to").Result()
	return errors.Join(err, expect(got, "1"))
}

func messages(ctx context.Context, c *redis.Client) error {
	listener := c.Subscribe(ctx, "go:news")
	defer listener.Close()
	if _, err := listener.Receive(ctx); err != nil {
		return err
	}
	n, err := c.Publish(ctx, "go:news", "hello").Result()
	if err := errors.Join(err, expect(n, 1)); err != nil {
		return err
	}
	got, err := listener.ReceiveMessage(ctx)
	if err != nil {
		return err
	}
	return expect(got.Channel+" "+got.Payload, "go:news hello")
}

func many(ctx context.Context, c *redis.Client) error {
	if err := c.MSet(ctx, "go:a", "1", "go:b", "2").Err(); err != nil {
		return err
	}
	got, err := c.MGet(ctx, "go:a", "go:missing", "go:b").Result()
	return errors.Join(err, expect(fmt.Sprint(got), "[1 <nil> 2]"))
}

func expiry(ctx context.Context, c *redis.Client) error {
	if err := c.Set(ctx, "go:short", "x", 200*time.Millisecond).Err(); err != nil {
		return err
	}
	left, err := c.PTTL(ctx, "go:short").Result()
	if err != nil || left <= 0 || left > 200*time.Millisecond {
		return fmt.Errorf("time left %v, %w", left, err)
	}
	time.Sleep(250 * time.Millisecond)
	n, err := c.Exists(ctx, "go:short").Result()
	return errors.Join(err, expect(n, 0))
}

func scan(ctx context.Context, c *redis.Client) error {
	seen := map[string]bool{}
	keys := c.Scan(ctx, 0, "go:p:*", 10).Iterator()
	for keys.Next(ctx) {
		seen[keys.Val()] = true
	}
	return errors.Join(keys.Err(), expect(len(seen), 100))
}

func wrong(ctx context.Context, c *redis.Client) error {
	if err := c.Set(ctx, "go:text", "abc", 0).Err(); err != nil {
		return err
	}
	err := c.Incr(ctx, "go:text").Err()
	return expect(fmt.Sprint(err), "ERR value is not an integer or out of range")
}
