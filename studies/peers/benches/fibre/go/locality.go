package main

const (
	// The number of cache lines of a working set.
	lines = 100
	// The number of writes to random cache lines before each operation.
	touches = 100
)

type cacheLine struct {
	count uint64
	_     [56]byte
}

// The memory to which a goroutine writes between operations.
type workingSet struct{ lines [lines]cacheLine }

func (w *workingSet) touch(random *random) {
	for i := 0; i < touches; i++ {
		w.lines[random.below(lines)].count++
	}
}

// The benchmark locality-share (share is true) or locality-noshare.
func locality(s setting, share bool) outcome {
	count, waiting := spotsOf(s)
	var clock clock
	spots := make([]chan *workingSet, count)
	for i := range spots {
		spots[i] = make(chan *workingSet, 2*s.threads())
	}
	sum := start(s.threads(), func(me int) uint64 {
		random, count := newRandom(me+1), uint64(0)
		mine := new(workingSet)
		if me >= waiting {
			clock.awaitStart()
		} else {
			clock.arrived.Add(1)
			if given := <-spots[me]; given != nil {
				mine = given
			}
		}
		for !clock.over.Load() {
			mine.touch(&random)
			spot := spots[random.below(len(spots))]
			if share {
				spot <- mine
				// At the end of the run, the spots are released without a working set.
				if given := <-spot; given != nil {
					mine = given
				}
			} else {
				spot <- nil
				<-spot
			}
			count++
		}
		return count
	})
	clock.awaitArrivals(waiting)
	seconds := clock.run(s.duration)
	for _, spot := range spots {
		for i := 0; i < s.threads(); i++ {
			spot <- nil
		}
	}
	return outcome{threads: s.threads(), operations: sum(), seconds: seconds, finished: true}
}
