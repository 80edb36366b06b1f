package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is the longest wait for a process to serve.
const patience = 60 * time.Second

// Process is a server that can be killed and started again.
type Process struct {
	name    string
	command func() *exec.Cmd
	log     string
	lock    sync.Mutex
	running *exec.Cmd
	ended   chan struct{}
}

func (p *Process) start() error {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running != nil {
		return nil
	}
	command := p.command()
	file, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	command.Stdout, command.Stderr = file, file
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.running, p.ended = command, make(chan struct{})
	go func(ended chan struct{}) {
		_ = command.Wait()
		_ = file.Close()
		close(ended)
	}(p.ended)
	return nil
}

func (p *Process) isRunning() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.running != nil
}

func (p *Process) signal(signal os.Signal) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running != nil {
		_ = p.running.Process.Signal(signal)
	}
}

// end ends it by this signal and waits; a process that does not end is killed.
func (p *Process) end(signal os.Signal) {
	p.signal(signal)
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running == nil {
		return
	}
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.running.Process.Kill()
		<-p.ended
	}
	p.running = nil
}

// hasDied says whether it has ended although it should run.
func (p *Process) hasDied() bool {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.running == nil {
		return false
	}
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// System is a cluster of six nodes.
type System struct {
	name    string
	network *Network
	nodes   []*Process
	// The members of etcd, if the system has a coordinator.
	etcd []*Process
	// Runs "hotring cluster" with more words.
	cluster func(words ...string) *exec.Cmd
	// The file for the step of a move at which a node is to die.
	steps string
	// The folders of the nodes, each a file system of its own, of this size in MiB.
	disks    []string
	diskSize int
}

func (s *System) stop() {
	for _, process := range append(append([]*Process{}, s.nodes...), s.etcd...) {
		process.signal(syscall.SIGCONT)
		process.end(syscall.SIGKILL)
	}
	for _, disk := range s.disks {
		_ = syscall.Unmount(disk, syscall.MNT_DETACH)
	}
}

// diskSize is the size of a node's file system in MiB: far more than it needs, also with the keys of all shards and
// of all rounds.
func diskSize(rounds int) int { return 128 + 16*rounds }

// mount gives a node a small file system in memory.
func (s *System) mount(node int, folder string) error {
	disk := filepath.Join(folder, fmt.Sprintf("data-%d", node))
	if err := os.MkdirAll(disk, 0o755); err != nil {
		return err
	}
	s.disks = append(s.disks, disk)
	return syscall.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%dm", s.diskSize))
}

// fill takes all space of a node's file system. Returns what gives it back.
func (s *System) fill(node int) (func() error, error) {
	name := filepath.Join(s.disks[node], "ballast")
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, err
	}
	return func() error { return os.Remove(name) }, nil
}

func (s *System) addresses() string {
	var all []string
	for node := range nodes {
		all = append(all, address(node)+":7000")
	}
	return strings.Join(all, ",")
}

// say asks a node through redis-cli.
func (s *System) say(node int, words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	full := append([]string{"netns", "exec", s.network.name(majority), "redis-cli", "-h", address(node), "-p", "7000"}, words...)
	output, err := exec.CommandContext(ctx, "ip", full...).CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// role is what a node says of itself: "master" or "slave".
func (s *System) role(node int) string {
	role, _ := s.say(node, "ROLE")
	role, _, _ = strings.Cut(role, "\n")
	return role
}

// isWhole says whether every node serves, every primary has its replica in sync, and all slots are served.
func (s *System) isWhole() bool {
	primaries := 0
	for node := range nodes {
		info, err := s.say(node, "CLUSTER", "INFO")
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
		info, err = s.say(node, "INFO", "replication")
		switch {
		case err != nil:
			return false
		case strings.Contains(info, "role:master") && strings.Contains(info, "state=online") &&
			(s.name == "redis" || strings.Contains(info, "in_sync_replicas:1")):
			primaries++
		case strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up"):
		default:
			return false
		}
	}
	return primaries == nodes/2
}

// primaries are the nodes that say that they are primary.
func (s *System) primaries() (leading, following []int) {
	for node := range nodes {
		if s.role(node) == "master" {
			leading = append(leading, node)
		} else {
			following = append(following, node)
		}
	}
	return leading, following
}

func waitFor(what string, isSo func() bool) error {
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(100 * time.Millisecond) {
		if isSo() {
			return nil
		}
	}
	return fmt.Errorf("not within %v: %s", patience, what)
}

func startSystem(name, program string, network *Network, folder string, rounds int) (*System, error) {
	system := &System{name: name, network: network, diskSize: diskSize(rounds)}
	var err error
	switch name {
	case "hotring":
		err = system.startHotring(program, folder)
	case "redis":
		err = system.startRedis(folder)
	default:
		return nil, fmt.Errorf("no such system: hotring, redis")
	}
	if err == nil {
		err = waitFor("the cluster is whole", system.isWhole)
	}
	if err != nil {
		logs := system.logs(folder)
		system.stop()
		return nil, fmt.Errorf("%w\n%s", err, logs)
	}
	return system, nil
}

// logs are the last lines of all processes.
func (s *System) logs(folder string) string {
	var out bytes.Buffer
	files, _ := filepath.Glob(filepath.Join(folder, "*.log"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&out, "== %s\n%s\n", filepath.Base(file), strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	return out.String()
}

func (s *System) process(name, folder string, place int, program string, words ...string) *Process {
	log := filepath.Join(folder, name+".log")
	command := func() *exec.Cmd {
		command := s.network.command(place, program, words...)
		command.Env = append(os.Environ(), "NEMESIS_STEPS="+s.steps)
		return command
	}
	return &Process{name: name, command: command, log: log}
}

func (s *System) startHotring(program, folder string) error {
	s.steps = filepath.Join(folder, "step")
	var peers, endpoints []string
	for member := range members {
		peers = append(peers, fmt.Sprintf("m%d=http://%s:2380", member, address(etcd+member)))
		endpoints = append(endpoints, address(etcd+member)+":2379")
	}
	for member := range members {
		own := address(etcd + member)
		s.etcd = append(s.etcd, s.process(fmt.Sprintf("etcd-%d", member), folder, etcd+member, "etcd",
			"--name", fmt.Sprintf("m%d", member), "--data-dir", filepath.Join(folder, fmt.Sprintf("etcd-%d", member)),
			"--listen-client-urls", "http://"+own+":2379,http://127.0.0.1:2379", "--advertise-client-urls", "http://"+own+":2379",
			"--listen-peer-urls", "http://"+own+":2380", "--initial-advertise-peer-urls", "http://"+own+":2380",
			"--initial-cluster", strings.Join(peers, ","), "--log-level", "error"))
		if err := s.etcd[member].start(); err != nil {
			return err
		}
	}
	coordinator := "etcd://" + strings.Join(endpoints, ",")
	s.cluster = func(words ...string) *exec.Cmd {
		words = append([]string{"cluster"}, words...)
		return s.network.command(majority, program, append(words, "--coordinator", coordinator)...)
	}
	for node := range nodes {
		if err := s.mount(node, folder); err != nil {
			return err
		}
		s.nodes = append(s.nodes, s.process(fmt.Sprintf("node-%d", node), folder, node, program, "serve",
			"--listen", address(node)+":7000", "--protected-mode", "no", "--threads", "1", "--log", "everysec", "--log-segment", "1M",
			"--data", s.disks[node], "--coordinator", coordinator,
			"--zone", fmt.Sprintf("zone-%d", node%2), "--lease", "2000", "--in-sync-lag", "1000"))
		if err := s.nodes[node].start(); err != nil {
			return err
		}
	}
	// What an attempt has made is there, even if it failed afterwards.
	exists := func(output []byte) bool { return strings.Contains(string(output), "a cluster already") }
	create := func() bool {
		output, err := s.cluster("create", "--copies", "2", "--dry-run").CombinedOutput()
		if err != nil || strings.Count(string(output), ":7000") < nodes {
			return exists(output)
		}
		output, err = s.cluster("create", "--copies", "2", "--yes").CombinedOutput()
		if err != nil {
			fmt.Printf("  hotring cluster create: %s\n", output)
		}
		return err == nil || exists(output)
	}
	return waitFor("the cluster is made", create)
}

// etcdLeader is the member that leads, or -1.
func (s *System) etcdLeader() int {
	for member, process := range s.etcd {
		if process.isRunning() && s.network.self(etcd+member, "leads").Run() == nil {
			return member
		}
	}
	return -1
}

// leads ends well if the member of etcd in this namespace is the leader.
func leads() error {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Post("http://127.0.0.1:2379/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader string `json:"leader"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return err
	}
	if status.Leader != status.Header.Member {
		return fmt.Errorf("%s leads", status.Leader)
	}
	return nil
}

func (s *System) startRedis(folder string) error {
	for node := range nodes {
		if err := s.mount(node, folder); err != nil {
			return err
		}
		s.nodes = append(s.nodes, s.process(fmt.Sprintf("node-%d", node), folder, node, "redis-server",
			"--port", "7000", "--bind", address(node), "--protected-mode", "no", "--cluster-enabled", "yes",
			"--cluster-node-timeout", "2000", "--appendonly", "yes", "--dir", s.disks[node], "--save", ""))
		if err := s.nodes[node].start(); err != nil {
			return err
		}
	}
	create := func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		words := append([]string{"netns", "exec", s.network.name(majority), "redis-cli", "--cluster", "create"}, strings.Split(s.addresses(), ",")...)
		output, err := exec.CommandContext(ctx, "ip", append(words, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput()
		return err == nil && strings.Contains(string(output), "[OK] All 16384 slots covered")
	}
	return waitFor("the cluster is made", create)
}
