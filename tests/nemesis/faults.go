package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Fault is one kind of fault: it begins, and is undone some time later.
type Fault struct {
	name  string
	kind  Kind
	lasts time.Duration
	begin func(n *Nemesis) (undo func() error, err error)
}

// Kind says how the time without a primary is counted.
type Kind string

const (
	// No node need take over.
	stays    Kind = "stays"
	failover Kind = "failover"
	handover Kind = "handover"
	// A primary that is still heard, and hears nothing.
	deaf  Kind = "deaf"
	death Kind = "death"
)

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
	empty, err := n.system.fill(node)
	if err != nil {
		return nil, err
	}
	process := n.system.nodes[node]
	return func() error {
		// A replica of Redis ends itself when its disk is full.
		if err := empty(); err != nil || !process.hasDied() {
			return err
		}
		process.end(syscall.SIGKILL)
		return process.start()
	}, nil
}

// faults are all kinds for this system.
func (n *Nemesis) faults() []Fault {
	all := []Fault{
		{"kill a primary", failover, outage, func(n *Nemesis) (func() error, error) { return n.ended(n.primary, syscall.SIGKILL) }},
		{"kill a replica", stays, outage, func(n *Nemesis) (func() error, error) { return n.ended(n.replica, syscall.SIGKILL) }},
		{"end a primary", handover, outage, func(n *Nemesis) (func() error, error) { return n.ended(n.primary, syscall.SIGTERM) }},
		{"stop a primary", failover, outage, func(n *Nemesis) (func() error, error) { return n.paused(n.primary) }},
		{"stop a primary shortly", stays, short, func(n *Nemesis) (func() error, error) { return n.paused(n.primary) }},
		{"fill a primary's disk", stays, outage, func(n *Nemesis) (func() error, error) { return n.filled(n.primary) }},
		{"fill a replica's disk", stays, outage, func(n *Nemesis) (func() error, error) { return n.filled(n.replica) }},
		{"cut off a primary", failover, outage, (*Nemesis).cutOff},
		{"lose what a primary sends", failover, outage, (*Nemesis).mute},
		{"lose what a primary gets", deaf, outage, (*Nemesis).deafen},
	}
	if len(n.system.etcd) > 0 {
		all = append(all,
			Fault{"kill etcd's leader", stays, outage, (*Nemesis).killLeader},
			Fault{"stop two members of etcd", stays, outage, (*Nemesis).stopQuorum},
			Fault{"cut a primary off from etcd", stays, outage, (*Nemesis).cutFromEtcd},
			Fault{"move slots", stays, outage, (*Nemesis).moveSlots},
			Fault{"move slots, kill a primary", failover, outage, (*Nemesis).moveAndKill},
			Fault{"kill etcd's leader and a primary", failover, outage, (*Nemesis).killBoth})
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
	if err != nil {
		return nil, err
	}
	var ways [][2]int
	for _, other := range others(node) {
		ways = append(ways, [2]int{node, other})
	}
	return n.network.heal, n.network.cut(node, ways)
}

func (n *Nemesis) deafen() (func() error, error) {
	node, err := n.primary()
	if err != nil {
		return nil, err
	}
	var ways [][2]int
	for _, other := range others(node) {
		ways = append(ways, [2]int{other, node})
	}
	return n.network.heal, n.network.cut(node, ways)
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

// moveSlots gives a block to another shard, and returns before that has happened.
func (n *Nemesis) moveSlots() (func() error, error) {
	slots, to, err := n.elsewhere()
	if err != nil {
		return nil, err
	}
	return n.begin(slots, to).wait, nil
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
