package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// Op is one operation of a client, as it is written to its process's output.
type Op struct {
	Client int    `json:"client"`
	Key    string `json:"key"`
	// get, set, incr, del, cas, or once: a key that is written a single time.
	Kind string `json:"kind"`
	Old  string `json:"old,omitempty"`
	New  string `json:"new,omitempty"`
	// Nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// What was answered; nil is "-". Of no use if unknown.
	Value   string `json:"value"`
	Unknown bool   `json:"unknown,omitempty"`
	// What it cost: refusals and redirections before the answer.
	Tries int `json:"tries,omitempty"`
}

const none = "-"

// register is a key for porcupine: a text, or none.
var register = porcupine.Model{
	Init: func() any { return none },
	Step: func(state, input, output any) (bool, any) {
		was, op := state.(string), input.(Op)
		out := output.(Op)
		switch op.Kind {
		case "get":
			return out.Unknown || out.Value == was, was
		case "set", "once":
			return true, op.New
		case "del":
			there := "1"
			if was == none {
				there = "0"
			}
			return out.Unknown || out.Value == there, none
		case "incr":
			number := int64(0)
			if was != none {
				number, _ = strconv.ParseInt(was, 10, 64)
			}
			now := strconv.FormatInt(number+1, 10)
			return out.Unknown || out.Value == now, now
		case "cas":
			if was == op.Old {
				return out.Unknown || out.Value == "1", op.New
			}
			return out.Unknown || out.Value == "0", was
		}
		return false, was
	},
	DescribeOperation: func(input, output any) string {
		op := input.(Op)
		return fmt.Sprintf("%s(%s %s) -> %s", op.Kind, op.Old, op.New, output.(Op).Value)
	},
}

// checkMax is the longest time for one key.
const checkMax = 60 * time.Second

// check says whether the operations of a key could have happened one after the other. What has no outcome may have
// happened at any later time, or not at all: a write that never happened is one that comes after everything else.
func check(ops []Op) porcupine.CheckResult {
	last := int64(0)
	for _, op := range ops {
		last = max(last, op.End)
	}
	var history []porcupine.Operation
	for _, op := range ops {
		if op.Unknown && op.Kind == "get" {
			continue
		}
		end := op.End
		if op.Unknown {
			end = last + 1
		}
		history = append(history, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Start, Output: op, Return: end})
	}
	return porcupine.CheckOperationsTimeout(register, history, checkMax)
}
