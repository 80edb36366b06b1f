// Command nemesis causes faults in a cluster of six nodes, each in a network namespace of its own, while clients that
// route themselves use it, and checks what they saw.
//
//	 majority            minority
//	6 to 10 clients      6 clients        one process for each library, beside the nodes on one bridge
//	    |                    |
//	---------------- bridge ----------------
//	 |    |    |    |    |    |     |  |  |
//	 0    1    2    3    4    5    etcd 0 1 2
//
// The history of each key is checked by porcupine for linearizability, and each key that was written once and
// acknowledged must be there in the end. The same faults run against Redis Cluster, which promises less.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// cannotTry is the exit code where namespaces cannot be made.
const cannotTry = 3

func main() {
	if len(os.Args) > 1 && os.Args[1] == "clients" {
		clients(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "leads" {
		if leads() != nil {
			os.Exit(1)
		}
		return
	}
	systems := flag.String("systems", "hotring,redis", "what to try, with commas: hotring, redis")
	program := flag.String("hotring", "target/debug/hotring", "the program of hotring")
	rounds := flag.Int("rounds", 10, "faults to cause in each system; every kind comes in turn")
	deaths := flag.Int("deaths", 0, "after these, rounds in which a node of hotring dies at a step of a move")
	var others []Other
	flag.Func("beside", "another program with clients, as NAME=PROGRAM ARGUMENTS...; up to two", func(text string) error {
		name, command, _ := strings.Cut(text, "=")
		words := strings.Fields(command)
		if len(words) == 0 || len(others) == 2 {
			return fmt.Errorf("two programs with names")
		}
		others = append(others, Other{name, words})
		return nil
	})
	only := flag.String("faults", "", "kinds of faults, with semicolons; empty: all")
	seed := flag.Int64("seed", time.Now().UnixNano(), "seed of all choices")
	keep := flag.Bool("keep", false, "leave logs and data where they are")
	report := flag.String("report", "", "also write all figures to this file as JSON")
	flag.Parse()
	if network, err := makeNetwork(); err != nil {
		fmt.Printf("nothing is tried, as network namespaces cannot be made here: %v\n", err)
		os.Exit(cannotTry)
	} else {
		network.remove()
	}
	fmt.Printf("seed %d\n", *seed)
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, os.Interrupt, syscall.SIGTERM)
	var all []Result
	isGood := true
	for _, name := range strings.Split(*systems, ",") {
		random := rand.New(rand.NewSource(*seed))
		planned := func(n *Nemesis) ([]Fault, error) { return n.plan(*rounds, *deaths, *only) }
		result, err := try(name, *program, *rounds+*deaths, planned, others, *keep, random, stops)
		if err != nil {
			show(all)
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		all = append(all, result)
		isGood = isGood && (name != "hotring" || result.isGood())
	}
	show(all)
	if *report != "" {
		text, err := json.MarshalIndent(all, "", "  ")
		if err == nil {
			err = os.WriteFile(*report, text, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if !isGood {
		os.Exit(1)
	}
}

// try causes all faults in one system and checks the histories.
func try(
	name, program string, rounds int, planned func(*Nemesis) ([]Fault, error), others []Other, keep bool, random *rand.Rand,
	stops chan os.Signal,
) (result Result, err error) {
	folder, err := os.MkdirTemp("", "nemesis-"+name+"-")
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if keep || err != nil {
			fmt.Printf("%s: logs and data are in %s\n", name, folder)
		} else {
			os.RemoveAll(folder)
		}
	}()
	network, err := makeNetwork()
	if err != nil {
		return Result{}, err
	}
	defer network.remove()
	system, err := startSystem(name, program, network, folder, rounds)
	if err != nil {
		return Result{}, err
	}
	defer system.stop()
	nemesis := newNemesis(system, network, random)
	plan, err := planned(nemesis)
	if err != nil {
		return Result{}, err
	}
	if err := nemesis.startGroups(others); err != nil {
		return Result{}, err
	}
	if err := nemesis.run(plan, stops); err != nil {
		return Result{}, err
	}
	return nemesis.judge()
}
