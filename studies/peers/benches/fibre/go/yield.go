package main

import "runtime"

func yield(s setting) outcome {
	var clock clock
	sum := start(s.threads(), func(int) uint64 {
		clock.awaitStart()
		count := uint64(0)
		for !clock.over.Load() {
			runtime.Gosched()
			count++
		}
		return count
	})
	seconds := clock.run(s.duration)
	return outcome{threads: s.threads(), operations: sum(), seconds: seconds, finished: true}
}
