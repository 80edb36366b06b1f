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
	name    string
	process *exec.Cmd
	input   io.WriteCloser
	answers chan string
	lock    sync.Mutex
	ops     []Op
}

// startGroup starts clients: a program that takes lines as "clients" of this one does.
func (n *Nemesis) startGroup(name string, command *exec.Cmd) error {
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	group := &Group{name: name, process: command, input: input, answers: make(chan string, 1)}
	n.groups = append(n.groups, group)
	go group.read(output)
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// startGroups starts those of this program, and others in the majority. The numbers of these spread them over the keys
// of a round: with two others each key has eight clients.
func (n *Nemesis) startGroups(others []Other) error {
	addresses := n.system.addresses()
	for at, place := range []int{majority, minority} {
		command := n.network.self(place, "clients", "--first", fmt.Sprint(at*clientsOf), "--addresses", addresses)
		if err := n.startGroup(fmt.Sprintf("go-redis %d", at), command); err != nil {
			return err
		}
	}
	for at, other := range others {
		first := 2*clientsOf + 3*at
		words := append(slices.Clone(other.words[1:]), "--addresses", addresses, "--numbers", fmt.Sprintf("%d,%d", first, first+6))
		if err := n.startGroup(other.name, n.network.command(majority, other.words[0], words...)); err != nil {
			return err
		}
	}
	return nil
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
	// Why there were no further rounds, if so.
	broken string
}

// Round is a fault that was caused.
type Round struct {
	Fault string `json:"fault"`
	Kind  Kind   `json:"kind"`
	// Whether other nodes were primary afterwards.
	Replaced bool    `json:"replaced"`
	Gap      float64 `json:"gap_seconds"`
	start    int64
	end      int64
}

// Other is a program with clients of another library.
type Other struct {
	name  string
	words []string
}

func newNemesis(system *System, network *Network, random *rand.Rand) *Nemesis {
	return &Nemesis{system: system, network: network, random: random}
}

// plan is what happens: rounds of each kind in turn, then deaths at steps of moves.
func (n *Nemesis) plan(rounds, deaths int, only string) ([]Fault, error) {
	all, dying := n.faults(), n.deaths()
	if only != "" {
		names := strings.Split(only, ";")
		all = slices.DeleteFunc(append(all, dying...), func(f Fault) bool { return !slices.Contains(names, f.name) })
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no such fault")
	}
	var plan []Fault
	for at := range rounds {
		plan = append(plan, all[at%len(all)])
	}
	for len(dying) > 0 && deaths > 0 {
		some := dying[:min(deaths, len(dying))]
		plan = append(plan, some...)
		deaths -= len(some)
		// In another order, with other times.
		dying = n.deaths()
	}
	return plan, nil
}

// run causes all faults of a plan.
func (n *Nemesis) run(plan []Fault, stops chan os.Signal) error {
	for at, fault := range plan {
		select {
		case <-stops:
			return fmt.Errorf("interrupted")
		default:
		}
		err := n.round(at, fault)
		if err == nil {
			continue
		}
		err = fmt.Errorf("round %d, %s: %w", at, fault.name, err)
		if n.system.name == "hotring" {
			return err
		}
		if err := n.endWith(fault, err); err != nil {
			return err
		}
		break
	}
	return n.readAll()
}

// endWith ends the rounds of another system, which may stay broken: what it has done until then counts.
func (n *Nemesis) endWith(fault Fault, why error) error {
	n.broken = why.Error()
	fmt.Printf("\n  %s: %s: no further rounds\n", n.system.name, n.broken)
	// For the keys of the round.
	n.rounds = append(n.rounds, Round{Fault: fault.name, Kind: stays})
	for _, group := range n.groups {
		if err := group.order("pause"); err != nil {
			return err
		}
		if err := group.wait(); err != nil {
			return err
		}
	}
	return nil
}

func (n *Nemesis) round(at int, fault Fault) error {
	fmt.Printf("  %s, round %d: %s ", n.system.name, at, fault.name)
	for _, group := range n.groups {
		if err := group.order(fmt.Sprintf("round %d", at)); err != nil {
			return err
		}
	}
	leading, _ := n.system.primaries()
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
	if n.system.name == "hotring" {
		why := ""
		isTidy := func() bool { why = n.system.untidy(); return why == "" }
		if err := waitFor("no node keeps keys that it does not show", isTidy); err != nil {
			return fmt.Errorf("%w: %s", err, why)
		}
	}
	afterwards, _ := n.system.primaries()
	replaced := !slices.Equal(leading, afterwards)
	round := Round{Fault: fault.name, Kind: fault.kind, Replaced: replaced, start: start, end: undone}
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
