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
type Network struct{ prefix string }

func ip(words string) error {
	output, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", words, err, output)
	}
	return nil
}

func address(place int) string { return fmt.Sprintf("10.213.61.%d", place+1) }

func hardware(place int) string { return fmt.Sprintf("02:00:00:61:00:%02x", place+1) }

func (n *Network) name(place int) string { return fmt.Sprintf("%s-%d", n.prefix, place) }

func makeNetwork() (*Network, error) {
	n := &Network{prefix: fmt.Sprintf("nemesis-%d", os.Getpid())}
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
	return n, nil
}

func (n *Network) remove() {
	for place := range places {
		_ = ip("netns del " + n.name(place))
	}
	_ = ip("netns del " + n.prefix + "-hub")
}

// cut loses all packets that one place sends to another: they go to an address of hardware that nobody has. Nobody is
// told.
func (n *Network) cut(from, to int) error {
	return ip(fmt.Sprintf("-n %s neigh replace %s lladdr 02:00:00:61:ff:ff dev eth nud permanent", n.name(from), address(to)))
}

// cutAll loses all packets of these ways, each from one place to another, from about one moment on: one after the other
// takes a second on a busy machine.
func (n *Network) cutAll(ways [][2]int) error {
	errs := make(chan error, len(ways))
	for _, way := range ways {
		go func() { errs <- n.cut(way[0], way[1]) }()
	}
	var all error
	for range ways {
		all = errors.Join(all, <-errs)
	}
	return all
}

// heal undoes every cut.
func (n *Network) heal() error {
	for from := range places {
		if err := ip(fmt.Sprintf("-n %s neigh flush dev eth nud permanent", n.name(from))); err != nil {
			return err
		}
	}
	return nil
}

// partition cuts everything between two groups, both ways.
func (n *Network) partition(one, other []int) error {
	var ways [][2]int
	for _, a := range one {
		for _, b := range other {
			ways = append(ways, [2]int{a, b}, [2]int{b, a})
		}
	}
	return n.cutAll(ways)
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
