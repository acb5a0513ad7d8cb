//go:build !race

package explore

// raceDetector says that the tests run ten times as slowly.
const raceDetector = false
