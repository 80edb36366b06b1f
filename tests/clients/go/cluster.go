// Connects go-redis's client of clusters, kills a primary, and checks that the client goes on and nothing is lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	counters = 6
	keys     = 300
	// The longest time without an acknowledged step, on a busy machine.
	gapMax = 20 * time.Second
)

// A node of the cluster and its process.
type node struct {
	address string
	pid     int
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// checkCluster runs every step; each argument is ADDRESS=PID.
func checkCluster(arguments []string) {
	var nodes []node
	for _, argument := range arguments {
		address, pid, _ := strings.Cut(argument, "=")
		number, err := strconv.Atoi(pid)
		if err != nil {
			fmt.Fprintln(os.Stderr, "usage: go run . cluster ADDRESS=PID ...")
			os.Exit(2)
		}
		nodes = append(nodes, node{address, number})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	// The library says each refused connection.
	redis.SetLogger(quiet{})
	// By default it looks for a new primary only every 60 s, unless a node redirects it.
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodes[0].address}, ClusterStateReloadInterval: time.Second,
	})
	defer client.Close()
	steps := []struct {
		what string
		run  func() error
	}{
		{"keys in all shards", func() error { return everywhere(ctx, client) }},
		{"pipeline over shards", func() error { return pipelineOver(ctx, client) }},
		{"a hash tag", func() error { return hashTag(ctx, client) }},
		{"keys of several slots are refused", func() error { return across(ctx, client) }},
		{"a primary is killed", func() error { return failover(ctx, client, nodes) }},
	}
	for _, step := range steps {
		if err := step.run(); err != nil {
			fmt.Fprintf(os.Stderr, "FAILED: go-redis in a cluster: %s: %v\n", step.what, err)
			os.Exit(1)
		}
		fmt.Printf("ok: go-redis in a cluster: %s\n", step.what)
	}
}

func everywhere(ctx context.Context, c *redis.ClusterClient) error {
	for i := range keys {
		if err := c.Set(ctx, fmt.Sprint("go:k:", i), i, 0).Err(); err != nil {
			return err
		}
	}
	return readAll(ctx, c)
}

func readAll(ctx context.Context, c *redis.ClusterClient) error {
	for i := range keys {
		got, err := c.Get(ctx, fmt.Sprint("go:k:", i)).Int()
		if err := errors.Join(err, expect(got, i)); err != nil {
			return fmt.Errorf("key %d: %w", i, err)
		}
	}
	return nil
}

func pipelineOver(ctx context.Context, c *redis.ClusterClient) error {
	replies, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 100 {
			p.Set(ctx, fmt.Sprint("go:p:", i), i, 0)
		}
		return nil
	})
	return errors.Join(err, expect(len(replies), 100))
}

func hashTag(ctx context.Context, c *redis.ClusterClient) error {
	if err := c.MSet(ctx, "{go}a", 1, "{go}b", 2).Err(); err != nil {
		return err
	}
	replies, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "{go}a")
		p.Incr(ctx, "{go}b")
		return nil
	})
	if err := errors.Join(err, expect(len(replies), 2)); err != nil {
		return err
	}
	got, err := c.MGet(ctx, "{go}a", "{go}b").Result()
	return errors.Join(err, expect(fmt.Sprint(got), "[2 3]"))
}

// A node answers so; the library itself may split commands over several slots.
func across(ctx context.Context, c *redis.ClusterClient) error {
	owner, err := c.MasterForKey(ctx, "go:1")
	if err != nil {
		return err
	}
	err = owner.MGet(ctx, "go:1", "go:2").Err()
	if err == nil || !strings.Contains(err.Error(), "hash to the same slot") {
		return fmt.Errorf("keys of two slots: %v", err)
	}
	return nil
}

// A key that is counted up. A step without an answer may have been done or not; an acknowledged one is never lost.
type counter struct {
	key   string
	mutex sync.Mutex
	steps int
	last  int64
	gap   time.Duration
}

func (k *counter) countUp(ctx context.Context, c *redis.ClusterClient) error {
	open, heard := int64(0), time.Now()
	for ctx.Err() == nil {
		now, err := c.Incr(ctx, k.key).Result()
		if err != nil {
			// The library has tried again by itself, so several steps may be done.
			open += 20
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err := k.took(now, open, time.Since(heard)); err != nil {
			return err
		}
		open, heard = 0, time.Now()
	}
	return nil
}

func (k *counter) took(now, open int64, gap time.Duration) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	// The library also tries again without a word when a connection breaks.
	if now <= k.last || now > k.last+1+open+20 {
		return fmt.Errorf("%s: %d after %d, %d open", k.key, now, k.last, open)
	}
	k.gap = max(k.gap, gap)
	k.last = now
	k.steps++
	return nil
}

func (k *counter) seen() (steps int, last int64, gap time.Duration) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.steps, k.last, k.gap
}

// waitForSteps waits until each counter has 50 more steps, or one has failed.
func waitForSteps(all []*counter, failed <-chan error) error {
	until := time.After(60 * time.Second)
	for _, k := range all {
		before, _, _ := k.seen()
		for {
			if steps, _, _ := k.seen(); steps >= before+50 {
				break
			}
			select {
			case err := <-failed:
				return err
			case <-until:
				return fmt.Errorf("%s does not go on", k.key)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

func failover(ctx context.Context, c *redis.ClusterClient, nodes []node) error {
	counting, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, counters)
	var all []*counter
	var done sync.WaitGroup
	for i := range counters {
		k := &counter{key: fmt.Sprint("go:counter:", i)}
		all = append(all, k)
		done.Go(func() {
			if err := k.countUp(counting, c); err != nil {
				failed <- err
			}
		})
	}
	if err := waitForSteps(all, failed); err != nil {
		return err
	}
	if err := killOwner(ctx, c, all, nodes); err != nil {
		return err
	}
	if err := waitForSteps(all, failed); err != nil {
		return err
	}
	stop()
	done.Wait()
	longest := time.Duration(0)
	for _, k := range all {
		_, last, gap := k.seen()
		longest = max(longest, gap)
		now, err := c.Get(ctx, k.key).Int64()
		if err != nil || now < last {
			return fmt.Errorf("%s: %d, but %d was acknowledged: %w", k.key, now, last, err)
		}
	}
	if longest > gapMax {
		return fmt.Errorf("a gap of %v", longest)
	}
	fmt.Printf("the longest wait was %v\n", longest)
	return readAll(ctx, c)
}

// killOwner kills a primary of the counters, but not the node with the coordinator.
func killOwner(ctx context.Context, c *redis.ClusterClient, all []*counter, nodes []node) error {
	for _, k := range all {
		owner, err := c.MasterForKey(ctx, k.key)
		if err != nil {
			return err
		}
		for _, node := range nodes[1:] {
			if node.address == owner.Options().Addr {
				if err := waitForCopy(ctx, owner); err != nil {
					return err
				}
				return syscall.Kill(node.pid, syscall.SIGKILL)
			}
		}
	}
	return errors.New("all counters are at the first node")
}

// waitForCopy waits until the replica has everything: one that was held up may not take over.
func waitForCopy(ctx context.Context, owner *redis.Client) error {
	for {
		info, err := owner.Info(ctx, "cluster").Result()
		if err != nil || strings.Contains(info, "cluster_copies_in_sync:2\r\n") {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
