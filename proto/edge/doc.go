// Package edge is the outermost layer of every tokenlease server: it refuses
// requests that break the rules of their messages before a handler sees them.
//
// A request is valid when its Validate method says so; see package tokenleasev1
// for the rules. What a handler of this module receives through [Options] is
// therefore of known size, and its texts are printable UTF-8.
//
// Everything here may be used by any number of goroutines.
package edge
