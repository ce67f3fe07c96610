package main

// The number of spots, and the number of goroutines that begin by waiting on a spot. See spots.rs.
func spotsOf(s setting) (spots, waiting int) {
	spots = max(1, s.threads()/2)
	return spots, min(spots, s.threads()-1)
}

func churn(s setting) outcome {
	count, waiting := spotsOf(s)
	var clock clock
	spots := make([]chan struct{}, count)
	for i := range spots {
		// The buffer has space for the permits of all goroutines and for those sent at the end of the
		// run, so that sending never blocks.
		spots[i] = make(chan struct{}, 2*s.threads())
	}
	sum := start(s.threads(), func(me int) uint64 {
		random, count := newRandom(me+1), uint64(0)
		if me < waiting {
			clock.arrived.Add(1)
			<-spots[me]
		} else {
			clock.awaitStart()
		}
		for !clock.over.Load() {
			spot := spots[random.below(len(spots))]
			spot <- struct{}{}
			<-spot
			count++
		}
		return count
	})
	clock.awaitArrivals(waiting)
	seconds := clock.run(s.duration)
	for _, spot := range spots {
		for i := 0; i < s.threads(); i++ {
			spot <- struct{}{}
		}
	}
	return outcome{threads: s.threads(), operations: sum(), seconds: seconds, finished: true}
}
