package main

const ringSize = 5

func cycle(s setting) outcome {
	rings := s.threads()
	var clock clock
	balls := make([]chan struct{}, rings*ringSize)
	for i := range balls {
		balls[i] = make(chan struct{}, 1)
	}
	sum := start(len(balls), func(me int) uint64 {
		ring := me / ringSize * ringSize
		mine, next := balls[me], balls[ring+(me-ring+1)%ringSize]
		count := uint64(0)
		<-mine
		for !clock.over.Load() {
			next <- struct{}{}
			<-mine
			count++
		}
		// Another member of the ring waits for this wake-up before it can end. For the last member it
		// has no effect, because the next one has ended already.
		next <- struct{}{}
		return count
	})
	seconds := clock.runWaking(s.duration, func() {
		for ring := 0; ring < rings; ring++ {
			balls[ring*ringSize] <- struct{}{}
		}
	})
	return outcome{threads: len(balls), operations: sum(), seconds: seconds, finished: true}
}
