// Appends to etcd's write-ahead log, measured: one JSON line at the end.
//
// The package has no group commit of its own; etcd gives it one by saving everything that was
// proposed meanwhile together. So does this program: one goroutine saves whatever waits, as etcd's
// raft loop does, and then tells everybody. An append counts from the call to that answer.
//
// Usage: peer-etcd DIRECTORY WRITERS SECONDS BYTES
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

const module = "go.etcd.io/etcd/server/v3"

// Appends of each writer before it is measured.
const warmUp = 20

type proposal struct {
	data []byte
	done chan error
}

type outcome struct {
	Peer    string  `json:"peer"`
	Version string  `json:"version"`
	Writers int     `json:"writers"`
	Appends int     `json:"appends"`
	Seconds float64 `json:"seconds"`
	P50Us   float64 `json:"p50_us"`
	P99Us   float64 `json:"p99_us"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer-etcd:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 4 {
		return fmt.Errorf("expected DIRECTORY WRITERS SECONDS BYTES, found %q", arguments)
	}
	writers, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(arguments[2], 64)
	if err != nil {
		return err
	}
	bytes, err := strconv.Atoi(arguments[3])
	if err != nil {
		return err
	}
	log, err := wal.Create(zap.NewNop(), arguments[0], []byte("bench"))
	if err != nil {
		return err
	}
	if err := log.SaveSnapshot(walpb.Snapshot{}); err != nil {
		return err
	}
	proposals := make(chan proposal, 1024)
	saver := make(chan struct{})
	go func() { save(log, proposals); close(saver) }()
	latencies, took, err := measure(proposals, writers, seconds, bytes)
	close(proposals)
	<-saver
	if err != nil {
		return err
	}
	result := summary(latencies, took, writers)
	if err := log.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// save makes durable, in one call, everything that waits.
func save(log *wal.WAL, proposals <-chan proposal) {
	state := raftpb.HardState{Term: 1, Vote: 1}
	index := uint64(0)
	for first := range proposals {
		batch := []proposal{first}
		for more := true; more; {
			select {
			case next, open := <-proposals:
				if !open {
					more = false
					break
				}
				batch = append(batch, next)
			default:
				more = false
			}
		}
		entries := make([]raftpb.Entry, 0, len(batch))
		for _, one := range batch {
			index++
			entries = append(entries, raftpb.Entry{Term: 1, Index: index, Data: one.data})
		}
		state.Commit = index
		err := log.Save(state, entries)
		// What is older than a segment is given up, as after a snapshot of etcd's.
		if err == nil && index > 20000 {
			err = log.ReleaseLockTo(index - 20000)
		}
		for _, one := range batch {
			one.done <- err
		}
	}
}

func measure(proposals chan<- proposal, writers int, seconds float64, bytes int) ([]float64, float64, error) {
	var (
		guard     sync.Mutex
		latencies []float64
		failure   error
		all       sync.WaitGroup
		ready     sync.WaitGroup
	)
	start := make(chan struct{})
	span := time.Duration(seconds * float64(time.Second))
	all.Add(writers)
	ready.Add(writers)
	for range writers {
		go func() {
			defer all.Done()
			own, err := appends(proposals, bytes, &ready, start, span)
			guard.Lock()
			defer guard.Unlock()
			latencies = append(latencies, own...)
			if err != nil {
				failure = err
			}
		}()
	}
	ready.Wait()
	began := time.Now()
	close(start)
	all.Wait()
	return latencies, time.Since(began).Seconds(), failure
}

func appends(proposals chan<- proposal, bytes int, ready *sync.WaitGroup, start <-chan struct{}, span time.Duration) ([]float64, error) {
	data := make([]byte, bytes)
	done := make(chan error, 1)
	var own []float64
	for range warmUp {
		proposals <- proposal{data, done}
		if err := <-done; err != nil {
			ready.Done()
			return nil, err
		}
	}
	ready.Done()
	<-start
	began := time.Now()
	for time.Since(began) < span {
		called := time.Now()
		proposals <- proposal{data, done}
		if err := <-done; err != nil {
			return own, err
		}
		own = append(own, float64(time.Since(called).Nanoseconds())/1e3)
	}
	return own, nil
}

func summary(latencies []float64, took float64, writers int) outcome {
	sort.Float64s(latencies)
	at := func(percent int) float64 {
		if len(latencies) == 0 {
			return 0
		}
		return latencies[min(len(latencies)*percent/100, len(latencies)-1)]
	}
	return outcome{"etcd wal", version(), writers, len(latencies), took, at(50), at(99)}
}

// version is that of the module this was built with.
func version() string {
	if info, found := debug.ReadBuildInfo(); found {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "unknown"
}
