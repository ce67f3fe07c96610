// The five scheduler benchmarks of T. Delisle's thesis (The Cforall Scheduler, Waterloo 2022,
// chapter 6) on goroutines. The Rust program scheduling.rs has the same benchmarks for its runtimes,
// the same flags and the same line of JSON. Its modules describe the benchmarks.
//
// Semaphores are buffered channels, because these gave Go its best results in cycle. Channels without
// a buffer and sync.Cond were tried, too.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// The size and the duration of a run.
type setting struct {
	processors int
	// The number of rings (in cycle) or goroutines (in all other benchmarks) for each processor.
	perProcessor int
	duration     time.Duration
}

func (s setting) threads() int { return s.processors * s.perProcessor }

// The result of a run.
type outcome struct {
	threads    int
	operations uint64
	seconds    float64
	// False if a goroutine waited so long that the number of operations is meaningless.
	finished bool
	// The turns and the durations of the rounds; only for transfer.
	turns  *turns
	rounds *turns
}

// The line of JSON that a run prints.
type line struct {
	Runtime      string  `json:"runtime"`
	Benchmark    string  `json:"benchmark"`
	Processors   int     `json:"processors"`
	PerProcessor int     `json:"per_processor"`
	Threads      int     `json:"threads"`
	Operations   uint64  `json:"operations"`
	Seconds      float64 `json:"seconds"`
	Finished     bool    `json:"finished"`
	TurnP50      *uint64 `json:"turn_p50_ns,omitempty"`
	TurnMax      *uint64 `json:"turn_max_ns,omitempty"`
	RoundP50     *uint64 `json:"round_p50_ns,omitempty"`
	RoundMax     *uint64 `json:"round_max_ns,omitempty"`
}

var benchmarks = map[string]func(setting) outcome{
	"cycle":            cycle,
	"yield":            yield,
	"churn":            churn,
	"locality-share":   func(s setting) outcome { return locality(s, true) },
	"locality-noshare": func(s setting) outcome { return locality(s, false) },
	"transfer":         transfer,
}

func main() {
	name := flag.String("benchmark", "", "cycle, yield, churn, locality-share, locality-noshare, transfer")
	processors := flag.Int("processors", runtime.NumCPU(), "kernel threads that run goroutines")
	perProcessor := flag.Int("per-processor", 100, "rings or goroutines for each processor")
	seconds := flag.Float64("seconds", 1, "duration of the run")
	flag.Parse()
	benchmark, known := benchmarks[*name]
	if !known || *processors < 1 || *perProcessor < 1 || *seconds <= 0 {
		fmt.Fprintf(os.Stderr, "no benchmark has the name %q, or a number is not positive\n", *name)
		flag.Usage()
		os.Exit(2)
	}
	runtime.GOMAXPROCS(*processors)
	result := benchmark(setting{*processors, *perProcessor, time.Duration(*seconds * 1e9)})
	printed := line{
		Runtime: "go", Benchmark: *name,
		Processors: *processors, PerProcessor: *perProcessor, Threads: result.threads,
		Operations: result.operations, Seconds: result.seconds, Finished: result.finished,
	}
	printed.TurnP50, printed.TurnMax = result.turns.figures()
	printed.RoundP50, printed.RoundMax = result.rounds.figures()
	if err := json.NewEncoder(os.Stdout).Encode(printed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Tells the goroutines when to begin and to stop counting operations. Goroutines that are started
// before the start of the clock yield until then.
type clock struct {
	// The number of goroutines that are about to wait on a spot, and so do not wait for the start.
	arrived atomic.Int64
	started atomic.Bool
	over    atomic.Bool
}

func (c *clock) awaitStart() {
	for !c.started.Load() {
		runtime.Gosched()
	}
}

// Waits until count goroutines have arrived.
func (c *clock) awaitArrivals(count int) {
	for c.arrived.Load() < int64(count) {
		runtime.Gosched()
	}
}

// Starts the counting, sleeps for the duration, and stops the counting. Returns the exact duration in
// seconds.
func (c *clock) run(duration time.Duration) float64 {
	return c.runWaking(duration, func() {})
}

// As run, and calls wakeFirst after the start. In cycle, wakeFirst wakes the first goroutine of each
// ring. If they were woken before the start, their operations until the start would be counted, but
// not their time.
func (c *clock) runWaking(duration time.Duration, wakeFirst func()) float64 {
	begin := time.Now()
	c.started.Store(true)
	wakeFirst()
	time.Sleep(duration)
	c.over.Store(true)
	return time.Since(begin).Seconds()
}

// Starts count goroutines, which run body. The returned function waits for all of them, and returns
// the sum of their results.
func start(count int, body func(me int) uint64) (sum func() uint64) {
	counts := make(chan uint64, count)
	for me := 0; me < count; me++ {
		go func() { counts <- body(me) }()
	}
	return func() uint64 {
		total := uint64(0)
		for i := 0; i < count; i++ {
			total += <-counts
		}
		return total
	}
}

// A random number generator: xorshift64* by Marsaglia and Vigna. It is chosen to be cheap, and to give
// the same numbers in Go and in Rust; its statistical quality matters little.
type random uint64

func newRandom(me int) random { return random(uint64(me)*0x9e3779b97f4a7c15 | 1) }

func (r *random) below(bound int) int {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return int((x * 0x2545f4914f6cdd1d >> 32) * uint64(bound) >> 32)
}
