// Package workload makes the checks that arrive in a scenario: when, in which
// region, of which budget and at what cost. They depend on the scenario and the
// seed alone, so that every strategy is asked the same.
//
// Each workload draws from a source of its own, made from the seed and its place
// in the scenario. Adding one at the end, or changing one, leaves the others as
// they were.
package workload
