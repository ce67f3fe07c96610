package main

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A number on two cache lines of its own. CPUs fetch cache lines in pairs.
type padded struct {
	atomic.Uint64
	_ [120]byte
}

// The state that all goroutines share. See rounds.rs.
type rounds struct {
	// The number of the goroutine that leads.
	leader padded
	// The number of the round, from 1.
	round atomic.Uint64
	// The time at which the round was published.
	publishedNs atomic.Uint64
	_           [112]byte
	// The last round that each goroutine has seen.
	seen []padded
	// The zero of all times in nanoseconds.
	created time.Time
}

func (r *rounds) nowNs() uint64 { return uint64(time.Since(r.created)) }

// The state and the measurements of one goroutine.
type member struct {
	rounds *rounds
	me     uint64
	// The last round that the goroutine has seen.
	round uint64
	// The goroutine has published the round, and waits until all others have seen it.
	leading bool
	// While leading, the lowest number of a goroutine that may not have seen the round yet.
	awaiting int
	// The number of complete rounds that the goroutine has led.
	led   uint64
	turns turns
	// The durations of the rounds that the goroutine has led.
	durations turns
}

// Leads or follows as far as is possible without waiting.
func (m *member) step() {
	if m.rounds.leader.Load() == m.me {
		m.lead()
	} else {
		m.follow()
	}
}

func (m *member) lead() {
	r := m.rounds
	if !m.leading {
		m.leading, m.awaiting = true, 0
		m.round = r.round.Load() + 1
		r.seen[m.me].Store(m.round)
		r.publishedNs.Store(r.nowNs())
		r.round.Store(m.round)
	}
	for m.awaiting < len(r.seen) {
		if r.seen[m.awaiting].Load() != m.round {
			return
		}
		m.awaiting++
	}
	m.leading = false
	m.led++
	m.durations.record(r.nowNs() - r.publishedNs.Load())
	r.leader.Store((m.me + 1) % uint64(len(r.seen)))
}

func (m *member) follow() {
	r := m.rounds
	if round := r.round.Load(); round != m.round {
		m.round = round
		m.turns.record(r.nowNs() - r.publishedNs.Load())
		r.seen[m.me].Store(round)
	}
}

func transfer(s setting) outcome {
	var clock clock
	shared := &rounds{seen: make([]padded, s.threads()), created: time.Now()}
	members := make([]*member, s.threads())
	var group sync.WaitGroup
	for me := range members {
		mine := &member{rounds: shared, me: uint64(me)}
		members[me] = mine
		group.Add(1)
		go func() {
			defer group.Done()
			clock.awaitStart()
			for !clock.over.Load() {
				mine.step()
				runtime.Gosched()
			}
			// A goroutine that has not run since the last round began records its wait until now.
			mine.follow()
		}()
	}
	shared.publishedNs.Store(shared.nowNs())
	seconds := clock.run(s.duration)
	// If no round began in the second half of the run, a goroutine was not run during all that time.
	finished := float64(shared.nowNs()-shared.publishedNs.Load())/1e9 < seconds/2
	group.Wait()
	result := outcome{
		threads: s.threads(), seconds: seconds, finished: finished,
		turns: new(turns), rounds: new(turns),
	}
	for _, mine := range members {
		result.operations += mine.led
		result.turns.merge(&mine.turns)
		result.rounds.merge(&mine.durations)
	}
	return result
}

// A histogram of durations in nanoseconds. It has 32 buckets for each power of two, so a value read
// from a bucket is at most 3 % too large.
type turns struct {
	counts [60 * 32]uint32
	count  uint64
	max    uint64
}

func (t *turns) record(ns uint64) {
	t.counts[bucketOf(ns)]++
	t.count++
	t.max = max(t.max, ns)
}

func (t *turns) merge(other *turns) {
	for i, count := range other.counts {
		t.counts[i] += count
	}
	t.count += other.count
	t.max = max(t.max, other.max)
}

// The median and the largest value; nil if nothing was recorded.
func (t *turns) figures() (median, greatest *uint64) {
	if t == nil || t.count == 0 {
		return nil, nil
	}
	left := (t.count + 1) / 2
	for bucket, count := range t.counts {
		if left <= uint64(count) {
			value := min(valueOf(bucket), t.max)
			return &value, &t.max
		}
		left -= uint64(count)
	}
	return nil, nil
}

func bucketOf(ns uint64) int {
	if ns < 32 {
		return int(ns)
	}
	power := bits.Len64(ns) - 6
	return (power+1)*32 + int(ns>>power) - 32
}

// The largest value of a bucket.
func valueOf(bucket int) uint64 {
	if bucket < 32 {
		return uint64(bucket)
	}
	power := bucket/32 - 1
	return uint64(bucket%32+33)<<power - 1
}
