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
