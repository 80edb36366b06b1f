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
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
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

// Fault is one kind of fault: it begins, and is undone some time later.
type Fault struct {
	name string
	// Whether a node must take over from another one meanwhile.
	replaces bool
	lasts    time.Duration
	begin    func(n *Nemesis) (undo func() error, err error)
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

func others(place int) []int {
	var all []int
	for other := range majority + 1 {
		if other != place {
			all = append(all, other)
		}
	}
	return all
}

// primary is a node that leads, at random.
func (n *Nemesis) primary() (int, error) {
	leading, _ := n.system.primaries()
	if len(leading) == 0 {
		return 0, fmt.Errorf("no node is primary")
	}
	return leading[n.random.Intn(len(leading))], nil
}

func (n *Nemesis) replica() (int, error) {
	_, following := n.system.primaries()
	if len(following) == 0 {
		return 0, fmt.Errorf("no node is a replica")
	}
	return following[n.random.Intn(len(following))], nil
}

func (n *Nemesis) ended(pick func() (int, error), signal os.Signal) (func() error, error) {
	node, err := pick()
	if err != nil {
		return nil, err
	}
	n.system.nodes[node].end(signal)
	return n.system.nodes[node].start, nil
}

func (n *Nemesis) paused(pick func() (int, error)) (func() error, error) {
	node, err := pick()
	if err != nil {
		return nil, err
	}
	n.system.nodes[node].signal(syscall.SIGSTOP)
	return func() error { n.system.nodes[node].signal(syscall.SIGCONT); return nil }, nil
}

func (n *Nemesis) filled(pick func() (int, error)) (func() error, error) {
	node, err := pick()
	if err != nil {
		return nil, err
	}
	return n.system.fill(node)
}

// faults are all kinds for this system.
func (n *Nemesis) faults() []Fault {
	all := []Fault{
		{"kill a primary", true, outage, func(n *Nemesis) (func() error, error) { return n.ended(n.primary, syscall.SIGKILL) }},
		{"kill a replica", false, outage, func(n *Nemesis) (func() error, error) { return n.ended(n.replica, syscall.SIGKILL) }},
		{"end a primary", true, outage, func(n *Nemesis) (func() error, error) { return n.ended(n.primary, syscall.SIGTERM) }},
		{"stop a primary", true, outage, func(n *Nemesis) (func() error, error) { return n.paused(n.primary) }},
		{"stop a primary shortly", false, short, func(n *Nemesis) (func() error, error) { return n.paused(n.primary) }},
		{"fill a primary's disk", false, outage, func(n *Nemesis) (func() error, error) { return n.filled(n.primary) }},
		{"fill a replica's disk", false, outage, func(n *Nemesis) (func() error, error) { return n.filled(n.replica) }},
		{"cut off a primary", true, outage, (*Nemesis).cutOff},
		{"lose what a primary sends", true, outage, (*Nemesis).mute},
		{"lose what a primary gets", true, outage, (*Nemesis).deafen},
	}
	if len(n.system.etcd) > 0 {
		all = append(all,
			Fault{"kill etcd's leader", false, outage, (*Nemesis).killLeader},
			Fault{"stop two members of etcd", false, outage, (*Nemesis).stopQuorum},
			Fault{"cut a primary off from etcd", false, outage, (*Nemesis).cutFromEtcd},
			Fault{"move slots", false, outage, (*Nemesis).moveSlots},
			Fault{"move slots, kill a primary", true, outage, (*Nemesis).moveAndKill},
			Fault{"kill etcd's leader and a primary", true, outage, (*Nemesis).killBoth})
	}
	return all
}

// cutOff leaves a primary alone with the minority of the clients.
func (n *Nemesis) cutOff() (func() error, error) {
	node, err := n.primary()
	if err != nil {
		return nil, err
	}
	return n.network.heal, n.network.partition([]int{node, minority}, others(node))
}

func (n *Nemesis) mute() (func() error, error) {
	node, err := n.primary()
	for _, other := range others(node) {
		if err == nil {
			err = n.network.cut(node, other)
		}
	}
	return n.network.heal, err
}

func (n *Nemesis) deafen() (func() error, error) {
	node, err := n.primary()
	for _, other := range others(node) {
		if err == nil {
			err = n.network.cut(other, node)
		}
	}
	return n.network.heal, err
}

func (n *Nemesis) killLeader() (func() error, error) {
	leader := n.system.etcdLeader()
	if leader < 0 {
		return nil, fmt.Errorf("etcd has no leader")
	}
	n.system.etcd[leader].end(syscall.SIGKILL)
	return n.system.etcd[leader].start, nil
}

func (n *Nemesis) stopQuorum() (func() error, error) {
	for _, member := range n.system.etcd[:2] {
		member.signal(syscall.SIGSTOP)
	}
	return func() error {
		for _, member := range n.system.etcd[:2] {
			member.signal(syscall.SIGCONT)
		}
		return nil
	}, nil
}

func (n *Nemesis) cutFromEtcd() (func() error, error) {
	node, err := n.primary()
	if err != nil {
		return nil, err
	}
	return n.network.heal, n.network.partition([]int{node}, []int{etcd, etcd + 1, etcd + 2})
}

func (n *Nemesis) killBoth() (func() error, error) {
	restart, err := n.killLeader()
	if err != nil {
		return nil, err
	}
	start, err := n.ended(n.primary, syscall.SIGKILL)
	if err != nil {
		return nil, err
	}
	return func() error {
		if err := restart(); err != nil {
			return err
		}
		return start()
	}, nil
}

// moveSlots gives a block to a shard, and returns before that has happened.
func (n *Nemesis) moveSlots() (func() error, error) {
	first := n.random.Intn(16384/blockLen) * blockLen
	slots := fmt.Sprintf("%d-%d", first, first+blockLen-1)
	moving := n.system.cluster("move", slots, "--to", fmt.Sprint(n.random.Intn(nodes/2)), "--yes")
	output := new(strings.Builder)
	moving.Stdout, moving.Stderr = output, output
	if err := moving.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- moving.Wait() }()
	return func() error {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("%w: %s", err, output)
			}
			return nil
		case <-time.After(patience):
			_ = moving.Process.Kill()
			return fmt.Errorf("slots %s have not moved: %s", slots, output)
		}
	}, nil
}

// moveAndKill kills a primary at some moment of a move.
func (n *Nemesis) moveAndKill() (func() error, error) {
	node, err := n.primary()
	if err != nil {
		return nil, err
	}
	moved, err := n.moveSlots()
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(n.random.Intn(int(short))))
	n.system.nodes[node].end(syscall.SIGKILL)
	return func() error {
		if err := n.system.nodes[node].start(); err != nil {
			return err
		}
		return moved()
	}, nil
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

// Result is what a system did.
type Result struct {
	System       string         `json:"system"`
	Rounds       []Round        `json:"rounds"`
	Acknowledged int            `json:"acknowledged_writes"`
	Unknown      int            `json:"writes_of_unknown_fate"`
	Once         int            `json:"keys_written_once"`
	Lost         map[string]int `json:"lost_by_fault"`
	Keys         int            `json:"keys_checked"`
	Wrong        map[string]int `json:"keys_not_linearizable_by_fault"`
	Undecided    int            `json:"keys_undecided"`
}

func (r *Result) isGood() bool {
	return len(r.Lost) == 0 && len(r.Wrong) == 0 && r.Undecided == 0
}

// judge checks all histories.
func (n *Nemesis) judge() (Result, error) {
	result := Result{System: n.system.name, Rounds: n.rounds, Lost: map[string]int{}, Wrong: map[string]int{}}
	byKey := map[string][]Op{}
	for _, group := range n.groups {
		for _, op := range group.ops {
			byKey[op.Key] = append(byKey[op.Key], op)
			switch {
			case op.Kind == "get":
			case op.Unknown:
				result.Unknown++
			default:
				result.Acknowledged++
			}
		}
	}
	for key, ops := range byKey {
		var at int
		if _, err := fmt.Sscanf(key, "r%d:", &at); err != nil {
			return result, err
		}
		fault := n.rounds[at].Fault
		if strings.Contains(key, ":once:") {
			result.Once++
			if slices.ContainsFunc(ops, func(op Op) bool { return op.Unknown }) {
				result.Undecided++
			}
			if isLost(ops) {
				result.Lost[fault]++
			}
			continue
		}
		result.Keys++
		switch check(ops) {
		case porcupine.Illegal:
			result.Wrong[fault]++
			fmt.Printf("  %s: %s is not linearizable (%s)\n", n.system.name, key, fault)
		case porcupine.Unknown:
			result.Undecided++
		}
	}
	return result, nil
}

// isLost says whether a key that was written once is not there in the last reading.
func isLost(ops []Op) bool {
	return slices.ContainsFunc(ops, func(op Op) bool { return op.Kind == "get" && !op.Unknown && op.Value == none })
}

// show prints a table for each system.
func show(all []Result) {
	for _, result := range all {
		fmt.Printf("\n%s: %d acknowledged writes, %d of unknown fate; %d keys checked, %d undecided; %d keys written once\n\n",
			result.System, result.Acknowledged, result.Unknown, result.Keys, result.Undecided, result.Once)
		fmt.Printf("| fault | rounds | longest time without a write, median | worst | lost | keys wrong |\n| --- | --- | --- | --- | --- | --- |\n")
		gaps := map[string][]float64{}
		var names []string
		for _, round := range result.Rounds {
			if gaps[round.Fault] == nil {
				names = append(names, round.Fault)
			}
			gaps[round.Fault] = append(gaps[round.Fault], round.Gap)
		}
		for _, name := range names {
			of := gaps[name]
			sort.Float64s(of)
			fmt.Printf("| %s | %d | %.2f s | %.2f s | %d | %d |\n", name, len(of), of[len(of)/2], of[len(of)-1], result.Lost[name], result.Wrong[name])
		}
	}
}
