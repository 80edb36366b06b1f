package main

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/anishathalye/porcupine"
)

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
	// Why there were no further rounds, if so.
	Ended string `json:"ended,omitempty"`
	// Acknowledged writes of each group of clients.
	Clients map[string]int `json:"acknowledged_by_clients"`
	// Times without a write in rounds of a kind after which another node was primary.
	Times map[Kind]Times `json:"times_of_replacements"`
}

// Times are in seconds.
type Times struct {
	Count  int     `json:"count"`
	Median float64 `json:"p50"`
	Worst  float64 `json:"max"`
}

func timesOf(gaps []float64) Times {
	sort.Float64s(gaps)
	return Times{len(gaps), gaps[len(gaps)/2], gaps[len(gaps)-1]}
}

// replacements are the times of all rounds in which a node took over from another one. What a planned end, a deaf primary
// and a move take is counted apart.
func replacements(rounds []Round) map[Kind]Times {
	gaps := map[Kind][]float64{}
	for _, round := range rounds {
		if round.Replaced {
			gaps[round.Kind] = append(gaps[round.Kind], round.Gap)
		}
	}
	times := map[Kind]Times{}
	for kind, of := range gaps {
		times[kind] = timesOf(of)
	}
	return times
}

func (r *Result) isGood() bool {
	return len(r.Lost) == 0 && len(r.Wrong) == 0 && r.Undecided == 0
}

// judge checks all histories.
func (n *Nemesis) judge() (Result, error) {
	result := Result{
		System: n.system.name, Rounds: n.rounds, Ended: n.broken, Lost: map[string]int{}, Wrong: map[string]int{},
		Clients: map[string]int{}, Times: replacements(n.rounds),
	}
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
				result.Clients[group.name]++
			}
		}
		if result.Clients[group.name] == 0 {
			return result, fmt.Errorf("no write of %s was acknowledged", group.name)
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
		if result.Ended != "" {
			fmt.Printf("no further rounds after %s\n\n", result.Ended)
		}
		gaps := map[string][]float64{}
		var names []string
		for _, round := range result.Rounds {
			if gaps[round.Fault] == nil {
				names = append(names, round.Fault)
			}
			gaps[round.Fault] = append(gaps[round.Fault], round.Gap)
		}
		for _, name := range names {
			of := timesOf(gaps[name])
			fmt.Printf("| %s | %d | %.2f s | %.2f s | %d | %d |\n", name, of.Count, of.Median, of.Worst, result.Lost[name], result.Wrong[name])
		}
		fmt.Printf("\n| another node became primary | times | median | worst |\n| --- | --- | --- | --- |\n")
		for _, kind := range []Kind{failover, deaf, handover, death, stays} {
			if of, has := result.Times[kind]; has {
				fmt.Printf("| %s | %d | %.2f s | %.2f s |\n", kind, of.Count, of.Median, of.Worst)
			}
		}
	}
}
