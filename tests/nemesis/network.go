package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Places on the bridge: nodes, members of etcd, and the two groups of clients.
const (
	nodes    = 6
	members  = 3
	etcd     = nodes
	majority = etcd + members
	minority = majority + 1
	places   = minority + 1
)

// Network is a bridge with a namespace for each place.
type Network struct {
	prefix string
	// What undoes the cuts of each place.
	undo map[int][]string
}

// What the rules of addresses begin with: cuts come before the table of local addresses.
const (
	cuts  = 1
	local = 10
)

func ip(words string) error {
	output, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", words, err, output)
	}
	return nil
}

// batch carries out these commands at a place, by one process and so at about one moment.
func (n *Network) batch(place int, words []string) error {
	command := exec.Command("ip", "-n", n.name(place), "-batch", "-")
	command.Stdin = strings.NewReader(strings.Join(words, "\n") + "\n")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch at %s: %w: %s", n.name(place), err, output)
	}
	return nil
}

func address(place int) string { return fmt.Sprintf("10.213.61.%d", place+1) }

func hardware(place int) string { return fmt.Sprintf("02:00:00:61:00:%02x", place+1) }

func (n *Network) name(place int) string { return fmt.Sprintf("%s-%d", n.prefix, place) }

func makeNetwork() (*Network, error) {
	n := &Network{prefix: fmt.Sprintf("nemesis-%d", os.Getpid()), undo: map[int][]string{}}
	hub := n.prefix + "-hub"
	words := []string{"netns add " + hub, "-n " + hub + " link add hub type bridge", "-n " + hub + " link set hub up"}
	for place := range places {
		name := n.name(place)
		words = append(words,
			"netns add "+name,
			fmt.Sprintf("-n %s link add eth address %s type veth peer name p%d netns %s", name, hardware(place), place, hub),
			fmt.Sprintf("-n %s link set p%d master hub", hub, place),
			fmt.Sprintf("-n %s link set p%d up", hub, place),
			fmt.Sprintf("-n %s address add %s/24 dev eth", name, address(place)),
			fmt.Sprintf("-n %s link set eth up", name),
			fmt.Sprintf("-n %s link set lo up", name))
	}
	for _, word := range words {
		if err := ip(word); err != nil {
			n.remove()
			return nil, err
		}
	}
	for place := range places {
		words := []string{
			fmt.Sprintf("rule add pref %d lookup local", local),
			"rule del pref 0",
		}
		for other := range places {
			if other != place {
				words = append(words, neighbour(other, hardware(other)))
			}
		}
		if err := n.batch(place, words); err != nil {
			n.remove()
			return nil, err
		}
	}
	return n, nil
}

// neighbour says where packets to a place go, so that nobody asks for that.
func neighbour(place int, hardware string) string {
	return fmt.Sprintf("neigh replace %s lladdr %s dev eth nud permanent", address(place), hardware)
}

func (n *Network) remove() {
	for place := range places {
		_ = ip("netns del " + n.name(place))
	}
	_ = ip("netns del " + n.prefix + "-hub")
}

// cut loses all packets of these ways, each from one place to another, and one of both is this place. It alone loses
// them, from one moment on: what it sends goes to an address of hardware that nobody has, and what comes has no route.
// Nobody is told.
func (n *Network) cut(place int, ways [][2]int) error {
	var words, undo []string
	for _, way := range ways {
		switch from, to := way[0], way[1]; place {
		case from:
			words = append(words, neighbour(to, "02:00:00:61:ff:ff"))
			undo = append(undo, neighbour(to, hardware(to)))
		default:
			rule := fmt.Sprintf("pref %d from %s blackhole", cuts, address(from))
			words = append(words, "rule add "+rule)
			undo = append(undo, "rule del "+rule)
		}
	}
	n.undo[place] = append(n.undo[place], undo...)
	return n.batch(place, words)
}

// heal undoes every cut.
func (n *Network) heal() error {
	var all error
	for place, words := range n.undo {
		all = errors.Join(all, n.batch(place, words))
	}
	clear(n.undo)
	return all
}

// partition cuts everything between two groups, both ways, at one place of the first group after the other.
func (n *Network) partition(one, other []int) error {
	for _, a := range one {
		var ways [][2]int
		for _, b := range other {
			ways = append(ways, [2]int{a, b}, [2]int{b, a})
		}
		if err := n.cut(a, ways); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program at a place.
func (n *Network) command(place int, program string, words ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.name(place), program}, words...)...)
}

// self runs this program at a place.
func (n *Network) self(place int, words ...string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return n.command(place, program, words...)
}
