package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"
)

// Keys of a round, and how many of them each client uses: so at most eight clients share a key, which the checker can
// still decide.
const (
	keysOfRound = 12
	keysOfOne   = 6
	clientsOf   = 6
)

// long is the value of keys that are written once: enough of them fill files.
var long = strings.Repeat("1", 2000)

// Time between two operations of a client, and the longest time for an answer, and the
// time between two looks at where the slots are.
const (
	rest      = 8 * time.Millisecond
	answerMax = 750 * time.Millisecond
	reloads   = 100 * time.Millisecond
)

const compareAndSet = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1 end return 0`

func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// clients runs a group of clients until its input ends. Each line of the input is a round to begin, "pause" or "read"
// with keys for a last reading; each line of the output is an Op, or a word that answers a command.
func clients(words []string) {
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	first := flags.Int("first", 0, "number of the first client")
	addresses := flags.String("addresses", "", "the nodes, with commas")
	_ = flags.Parse(words)
	redis.SetLogger(silent{})
	group := &group{first: *first, out: bufio.NewWriter(os.Stdout)}
	// A write without an answer must not be sent again, as its fate would be open twice: the library may route, and
	// learn from redirections, but repeat nothing.
	group.cluster = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: strings.Split(*addresses, ","), MaxRedirects: -1, MaxRetries: -1, PoolSize: 4 * clientsOf,
		DialerRetries: 1, DialTimeout: 500 * time.Millisecond, ReadTimeout: answerMax, WriteTimeout: answerMax, PoolTimeout: answerMax,
	})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		word, rest, _ := strings.Cut(commands.Text(), " ")
		switch word {
		case "round":
			group.begin(rest)
		case "pause":
			group.pause()
			group.tell("paused")
		case "read":
			group.read(strings.Fields(rest))
			group.tell("read")
		}
	}
}

// silent keeps the library from reporting what the faults are there for.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

type group struct {
	first   int
	cluster *redis.ClusterClient
	lock    sync.Mutex
	out     *bufio.Writer
	ends    *atomic.Bool
	running sync.WaitGroup
	// When the library was told last to look where the slots are.
	reloaded atomic.Int64
}

func (g *group) tell(line string) {
	g.lock.Lock()
	defer g.lock.Unlock()
	fmt.Fprintln(g.out, line)
	_ = g.out.Flush()
}

func (g *group) write(op Op) {
	op.New, op.Value = abridged(op.New), abridged(op.Value)
	text, _ := json.Marshal(op)
	g.lock.Lock()
	defer g.lock.Unlock()
	_, _ = g.out.Write(append(text, '\n'))
}

// abridged is the same text for each long value, so that histories stay small.
func abridged(value string) string {
	if value == long {
		return "1"
	}
	return value
}

func (g *group) begin(round string) {
	g.ends = new(atomic.Bool)
	for n := range clientsOf {
		g.running.Add(1)
		go g.client(g.first+n, round, g.ends)
	}
}

func (g *group) pause() {
	if g.ends != nil {
		g.ends.Store(true)
		g.running.Wait()
	}
}

// read reads keys beside each other.
func (g *group) read(keys []string) {
	for at, key := range keys {
		g.running.Go(func() {
			op := Op{Client: g.first + at, Key: key, Kind: "get"}
			g.insist(&op)
			g.write(op)
		})
	}
	g.running.Wait()
}

// client works on keys of the round. After an operation of unknown fate it leaves that key alone, so that few such
// operations overlap in a history.
func (g *group) client(number int, round string, ends *atomic.Bool) {
	defer g.running.Done()
	random := rand.New(rand.NewSource(now() + int64(number)))
	var keys []string
	for at := range keysOfOne {
		keys = append(keys, fmt.Sprintf("r%s:k%d", round, (number*5+at)%keysOfRound))
	}
	values := map[string]string{}
	for n := 0; !ends.Load(); n++ {
		op := Op{Client: number, Kind: "once", Key: fmt.Sprintf("r%s:once:%d:%d", round, number, n), New: long}
		if n%4 != 0 && len(keys) > 0 {
			key := keys[random.Intn(len(keys))]
			op = choose(random, number, key, values[key])
		}
		g.insist(&op)
		if op.Kind == "get" && !op.Unknown {
			values[op.Key] = op.Value
		}
		if op.Kind == "cas" && op.Value == "1" || op.Kind == "set" {
			values[op.Key] = op.New
		}
		if op.Tries >= 0 && (op.Kind != "once" || !op.Unknown) {
			g.write(op)
		}
		if op.Unknown && op.Kind != "get" {
			keys = without(keys, op.Key)
		}
		time.Sleep(rest)
	}
}

func choose(random *rand.Rand, client int, key, seen string) Op {
	op := Op{Client: client, Key: key, Kind: "get"}
	unique := strconv.Itoa(client*1_000_000 + random.Intn(1_000_000)*100)
	switch random.Intn(10) {
	case 0, 1:
		op.Kind, op.New = "set", unique
	case 2, 3, 4:
		op.Kind = "incr"
	case 5:
		op.Kind = "del"
	case 6:
		if seen != none && seen != "" {
			op.Kind, op.Old, op.New = "cas", seen, unique
		}
	}
	return op
}

func without(keys []string, key string) []string {
	var left []string
	for _, other := range keys {
		if other != key {
			left = append(left, other)
		}
	}
	return left
}

// insist asks until there is an answer or the fate is open. A refusal says that nothing was done: then it asks again, as
// an operation that begins anew.
func (g *group) insist(op *Op) {
	begun := time.Now()
	for {
		op.Start = now()
		value, err := g.ask(op)
		op.End = now()
		switch {
		case err == nil:
			op.Value = value
			return
		case !isRefusal(err) || op.Kind == "get" && time.Since(begun) > 30*time.Second:
			op.Unknown = true
			g.reload()
			return
		case time.Since(begun) > 30*time.Second:
			// Nothing was done.
			op.Tries = -1
			return
		}
		op.Tries++
		g.reload()
		time.Sleep(5 * time.Millisecond)
	}
}

// reload has the library learn where the slots are, now and then.
func (g *group) reload() {
	last := g.reloaded.Load()
	if at := now(); at-last > int64(reloads) && g.reloaded.CompareAndSwap(last, at) {
		g.cluster.ReloadState(context.Background())
	}
}

func (g *group) ask(op *Op) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerMax)
	defer cancel()
	switch op.Kind {
	case "get":
		value, err := g.cluster.Get(ctx, op.Key).Result()
		if errors.Is(err, redis.Nil) {
			return none, nil
		}
		return value, err
	case "set", "once":
		return "", g.cluster.Set(ctx, op.Key, op.New, 0).Err()
	case "incr":
		n, err := g.cluster.Incr(ctx, op.Key).Result()
		return strconv.FormatInt(n, 10), err
	case "del":
		n, err := g.cluster.Del(ctx, op.Key).Result()
		return strconv.FormatInt(n, 10), err
	default:
		n, err := g.cluster.Eval(ctx, compareAndSet, []string{op.Key}, op.Old, op.New).Int64()
		return strconv.FormatInt(n, 10), err
	}
}

// isRefusal says whether the error means that nothing was done.
func isRefusal(err error) bool {
	text := err.Error()
	for _, word := range []string{"MOVED", "ASK ", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "READONLY", "MASTERDOWN", "CROSSSLOT"} {
		if strings.HasPrefix(text, word) {
			return true
		}
	}
	// No connection, so nothing was sent.
	return strings.Contains(text, "connection refused") || strings.Contains(text, "dial tcp") || strings.Contains(text, "no route to host")
}
