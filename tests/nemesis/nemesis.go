package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Times of a round: clients alone, the fault, and how long they must be served again afterwards.
const (
	before    = 1 * time.Second
	short     = 500 * time.Millisecond
	outage    = 5 * time.Second
	afterward = 2 * time.Second
)

// Group is a process of clients at a place of the network.
type Group struct {
	process *exec.Cmd
	input   io.WriteCloser
	answers chan string
	lock    sync.Mutex
	ops     []Op
}

func (n *Nemesis) startGroup(place, first int) (*Group, error) {
	command := n.network.self(place, "clients", "--first", fmt.Sprint(first), "--addresses", n.system.addresses())
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	group := &Group{process: command, input: input, answers: make(chan string, 1)}
	go group.read(output)
	return group, command.Start()
}

func (g *Group) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var op Op
		if json.Unmarshal(lines.Bytes(), &op) != nil {
			g.answers <- lines.Text()
			continue
		}
		g.lock.Lock()
		g.ops = append(g.ops, op)
		g.lock.Unlock()
	}
	close(g.answers)
}

func (g *Group) order(line string) error {
	_, err := fmt.Fprintln(g.input, line)
	return err
}

// wait waits for the answer to a command.
func (g *Group) wait() error {
	select {
	case _, open := <-g.answers:
		if !open {
			return fmt.Errorf("the clients have ended")
		}
		return nil
	case <-time.After(2 * patience):
		return fmt.Errorf("the clients do not answer")
	}
}

// Nemesis causes faults.
type Nemesis struct {
	system  *System
	network *Network
	random  *rand.Rand
	groups  []*Group
	rounds  []Round
}

// Round is a fault that was caused.
type Round struct {
	Fault    string  `json:"fault"`
	Replaces bool    `json:"replaces"`
	Gap      float64 `json:"gap_seconds"`
	start    int64
	end      int64
}

func newNemesis(system *System, network *Network, random *rand.Rand) *Nemesis {
	return &Nemesis{system: system, network: network, random: random}
}

// run causes faults, each kind in turn.
func (n *Nemesis) run(rounds int, only string, stops chan os.Signal) error {
	for at, place := range []int{majority, minority} {
		group, err := n.startGroup(place, at*clientsOf)
		if err != nil {
			return err
		}
		n.groups = append(n.groups, group)
	}
	all := n.faults()
	if only != "" {
		names := strings.Split(only, ";")
		all = slices.DeleteFunc(all, func(f Fault) bool { return !slices.Contains(names, f.name) })
	}
	if len(all) == 0 {
		return fmt.Errorf("no such fault")
	}
	for at := range rounds {
		select {
		case <-stops:
			return fmt.Errorf("interrupted")
		default:
		}
		if err := n.round(at, all[at%len(all)]); err != nil {
			return fmt.Errorf("round %d, %s: %w", at, all[at%len(all)].name, err)
		}
	}
	return n.readAll()
}

func (n *Nemesis) round(at int, fault Fault) error {
	fmt.Printf("  %s, round %d: %s ", n.system.name, at, fault.name)
	for _, group := range n.groups {
		if err := group.order(fmt.Sprintf("round %d", at)); err != nil {
			return err
		}
	}
	time.Sleep(before)
	start, began := now(), time.Now()
	undo, err := fault.begin(n)
	if err != nil {
		return err
	}
	time.Sleep(fault.lasts)
	undone := now()
	if err := undo(); err != nil {
		return err
	}
	if err := waitFor("the cluster is whole again", n.system.isWhole); err != nil {
		return err
	}
	time.Sleep(afterward)
	for _, group := range n.groups {
		if err := group.order("pause"); err != nil {
			return err
		}
		if err := group.wait(); err != nil {
			return err
		}
	}
	round := Round{Fault: fault.name, Replaces: fault.replaces, start: start, end: undone}
	round.Gap = n.gap(round)
	n.rounds = append(n.rounds, round)
	fmt.Printf("at %s (no write for at most %.2f s)\n", began.UTC().Format("15:04:05.000"), round.Gap)
	return nil
}

// blockLen is the number of slots that are looked at together, and that move together. In fewer of them the clients
// themselves write too rarely.
const blockLen = 2048

// gap is the longest time without an acknowledged write of any client of the majority on keys of one block of slots, in
// seconds: a block always belongs to one shard.
func (n *Nemesis) gap(round Round) float64 {
	group := n.groups[0]
	group.lock.Lock()
	defer group.lock.Unlock()
	acknowledged := map[int][]int64{}
	for _, op := range group.ops {
		if op.Start > round.start-int64(before) && !op.Unknown && op.Kind != "get" {
			block := slotOf(op.Key) / blockLen
			acknowledged[block] = append(acknowledged[block], op.End)
		}
	}
	longest := int64(0)
	for _, ends := range acknowledged {
		slices.Sort(ends)
		for at := 1; at < len(ends); at++ {
			if ends[at] > round.start {
				longest = max(longest, ends[at]-max(ends[at-1], round.start))
			}
		}
	}
	return float64(longest) / 1e9
}

// slotOf is Redis's slot of a key without a hash tag.
func slotOf(key string) int {
	crc := uint16(0)
	for at := range len(key) {
		crc ^= uint16(key[at]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc % 16384)
}

// readAll reads every key once more.
func (n *Nemesis) readAll() error {
	keys := map[string]bool{}
	for _, group := range n.groups {
		for _, op := range group.ops {
			keys[op.Key] = true
		}
	}
	fmt.Printf("  %s: reading %d keys again\n", n.system.name, len(keys))
	for some := range slices.Chunk(slices.Sorted(maps.Keys(keys)), clientsOf) {
		if err := n.groups[0].order("read " + strings.Join(some, " ")); err != nil {
			return err
		}
		if err := n.groups[0].wait(); err != nil {
			return err
		}
	}
	for _, group := range n.groups {
		_ = group.input.Close()
		_ = group.process.Wait()
	}
	return nil
}
