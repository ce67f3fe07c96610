package main

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A number that has two cache lines, which processors fetch in pairs, for itself.
type padded struct {
	atomic.Uint64
	_ [120]byte
}

type rounds struct {
	leader padded
	// The number of the round, from 1, and when it was published.
	round       atomic.Uint64
	publishedNs atomic.Uint64
	_           [112]byte
	seen        []padded
	born        time.Time
}

func (r *rounds) nowNs() uint64 { return uint64(time.Since(r.born)) }

// One goroutine's part in the rounds.
type member struct {
	rounds *rounds
	me     uint64
	// The last round it saw.
	round uint64
	// The leader's: the first of whom it does not know that they have seen the round.
	leading   bool
	awaiting  int
	led       uint64
	turns     turns
	durations turns
}

// Does what can be done without waiting.
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
	shared := &rounds{seen: make([]padded, s.threads()), born: time.Now()}
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
			// Who has not had a turn since the last round began has waited at least this long.
			mine.follow()
		}()
	}
	shared.publishedNs.Store(shared.nowNs())
	seconds := clock.run(s.duration)
	// Where no round began in the second half, someone was not given its turn for as long.
	finished := float64(shared.nowNs()-shared.publishedNs.Load())/1e9 < seconds/2
	group.Wait()
	found := outcome{
		threads: s.threads(), seconds: seconds, finished: finished,
		turns: new(turns), rounds: new(turns),
	}
	for _, mine := range members {
		found.operations += mine.led
		found.turns.merge(&mine.turns)
		found.rounds.merge(&mine.durations)
	}
	return found
}

// How long turns were: 32 buckets for each power of two, so figures are 3 % wide at most.
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

// The median and the greatest; nothing where there is none.
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

// The greatest value of a bucket.
func valueOf(bucket int) uint64 {
	if bucket < 32 {
		return uint64(bucket)
	}
	power := bucket/32 - 1
	return uint64(bucket%32+33)<<power - 1
}
