package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// steps are those of a move, in their order, as crates/hotring-server/src/tasks/cluster/moves/steps.rs names them.
var steps = []string{
	"SourceBegins", "SourceOpens", "TargetIsAsked", "TargetOpens", "SourceWalks", "TargetReceives", "SourceFollows",
	"SourceHoldsWrites", "TargetHasAll", "TargetAnswers", "SourceHearsThat", "SourceHoldsReads", commits,
	"SourceHasCommitted", "SourceRedirects", "TargetHearsThat", "TargetShows", "TargetHasShown", "SourceIsThrough",
	"Forgets", "HasForgottenSome", drops,
}

const (
	commits = "SourceCommits"
	drops   = "TargetDrops"
	// disturbs is the step at which the source must die for the target to drop what came.
	disturbs = "SourceHoldsWrites"
	// answerTimes is about as long as etcd takes for a transaction.
	answerTimes = 4 * time.Millisecond
)

// deaths are the kinds of faults in which a node dies at a step of a move, in an order of the seed. Some come back before
// their lease is over, and some moves are taken back.
func (n *Nemesis) deaths() []Fault {
	if len(n.system.etcd) == 0 {
		return nil
	}
	var all []Fault
	for _, at := range n.random.Perm(len(steps)) {
		step := steps[at]
		lasts := outage
		if n.random.Intn(2) == 0 {
			lasts = short
		}
		takesBack := n.random.Intn(3) == 0
		begin := func(n *Nemesis) (func() error, error) { return n.dieAt(step, takesBack) }
		all = append(all, Fault{"die at " + step, death, lasts, begin})
	}
	return all
}

// dieAt moves slots until a node has died at a step.
func (n *Nemesis) dieAt(step string, takesBack bool) (func() error, error) {
	first, after := step, time.Duration(0)
	switch step {
	case drops:
		first = disturbs
	case commits:
		after = time.Duration(n.random.Int63n(int64(answerTimes)))
	}
	// The order comes first: a move takes less time than a command.
	if err := n.system.order(first, after); err != nil {
		return nil, err
	}
	move, dead, err := n.moveUntilDeath()
	if err == nil && step == drops {
		if err = n.system.order(drops, 0); err == nil {
			var second []*Process
			second, err = n.system.await(nil)
			dead = append(dead, second...)
		}
	}
	if err != nil {
		return nil, err
	}
	if takesBack {
		if _, err := n.system.ask("move", "--cancel", "all", "--yes"); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, process := range dead {
			if err := process.start(); err != nil {
				return err
			}
		}
		if err := move.wait(); !takesBack || err != nil && !strings.Contains(err.Error(), "were taken back") {
			return err
		}
		// What was taken back must not be in the way, and a block belongs together.
		return n.begin(move.slots, move.to).wait()
	}, nil
}

// moveUntilDeath moves slots again and again: a target that sees by the records that a move is through need not hear of
// it.
func (n *Nemesis) moveUntilDeath() (*Move, []*Process, error) {
	for begun := time.Now(); time.Since(begun) < patience; {
		slots, to, err := n.elsewhere()
		if err != nil {
			return nil, nil, err
		}
		move := n.begin(slots, to)
		dead, err := n.system.await(move)
		if err == nil && len(dead) == 0 {
			err = move.wait()
		}
		if err != nil || len(dead) > 0 {
			return move, dead, err
		}
	}
	return nil, nil, fmt.Errorf("no node comes to the step")
}

// order has the first node die that comes to a step, a time after that.
func (s *System) order(step string, after time.Duration) error {
	return os.WriteFile(s.steps, fmt.Appendf(nil, "%s %d", step, after.Microseconds()), 0o644)
}

// await returns the nodes that have died once the order is carried out; none if the move, if there is one, ends before.
func (s *System) await(move *Move) ([]*Process, error) {
	var dead []*Process
	err := waitFor("a node comes to the step", func() bool {
		// Keys are removed behind the end of a move.
		isOver := move != nil && move.hasEnded(afterward)
		dead = slices.DeleteFunc(slices.Clone(s.nodes), func(node *Process) bool { return !node.hasDied() })
		return len(dead) > 0 || isOver
	})
	if err != nil || len(dead) == 0 {
		return nil, err
	}
	if _, err := os.Stat(s.steps); !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("a node died, but not at the step")
	}
	for _, node := range dead {
		if state := node.running.ProcessState; !killed(state) {
			return nil, fmt.Errorf("%s has ended by itself: %s", node.name, state)
		}
		node.end(syscall.SIGKILL)
	}
	return dead, nil
}

// killed says whether a process has ended by SIGKILL.
func killed(state *os.ProcessState) bool {
	status, known := state.Sys().(syscall.WaitStatus)
	return known && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// elsewhere draws a block, and a shard that does not have all of it.
func (n *Nemesis) elsewhere() (slots, to string, err error) {
	first := n.random.Intn(16384/blockLen) * blockLen
	slots = fmt.Sprintf("%d-%d", first, first+blockLen-1)
	for _, shard := range n.random.Perm(nodes / 2) {
		to = fmt.Sprint(shard)
		said, err := n.system.ask("move", slots, "--to", to, "--dry-run")
		if err != nil {
			return "", "", err
		}
		if !strings.Contains(said, "already") {
			return slots, to, nil
		}
	}
	return "", "", fmt.Errorf("every shard has slots %s", slots)
}

// Move is a command that moves slots.
type Move struct {
	slots, to string
	ended     chan struct{}
	end       time.Time
	err       error
}

// begin moves slots, and returns before that has happened.
func (n *Nemesis) begin(slots, to string) *Move {
	move := &Move{slots: slots, to: to, ended: make(chan struct{})}
	go func() {
		_, move.err = n.system.ask("move", slots, "--to", to, "--yes")
		move.end = time.Now()
		close(move.ended)
	}()
	return move
}

func (m *Move) wait() error {
	<-m.ended
	return m.err
}

// hasEnded says whether it ended at least this time ago.
func (m *Move) hasEnded(ago time.Duration) bool {
	select {
	case <-m.ended:
		return time.Since(m.end) >= ago
	default:
		return false
	}
}

// ask runs a command until the coordinator answers: it may be the fault that it does not. What was asked for may be
// under way then.
func (s *System) ask(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		command := s.cluster(words...)
		output := new(strings.Builder)
		command.Stdout, command.Stderr = output, output
		err := run(ctx, command)
		said := output.String()
		isOpen := strings.Contains(said, "does not answer") || strings.Contains(said, "is part of move")
		if err == nil || !isOpen || ctx.Err() != nil {
			if err != nil {
				err = fmt.Errorf("hotring cluster %s: %w: %s", strings.Join(words, " "), err, said)
			}
			return said, err
		}
		time.Sleep(short)
	}
}

// run runs a command until the time is over.
func run(ctx context.Context, command *exec.Cmd) error {
	if err := command.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = command.Process.Kill() })()
	return command.Wait()
}

// untidy names a node that keeps keys that it does not show; nothing if there is none: a move must leave none behind.
func (s *System) untidy() string {
	for node := range nodes {
		shown, err := s.say(node, "DBSIZE")
		if err != nil {
			return fmt.Sprintf("node %d: DBSIZE: %v %s", node, err, shown)
		}
		info, err := s.say(node, "INFO", "keyspace")
		if err != nil {
			return fmt.Sprintf("node %d: INFO: %v %s", node, err, info)
		}
		_, held, has := strings.Cut(info, "db0:keys=")
		held, _, _ = strings.Cut(held, ",")
		if !has {
			held = "0"
		}
		if held != shown {
			return fmt.Sprintf("node %d keeps %s keys and shows %s", node, held, shown)
		}
	}
	return ""
}
