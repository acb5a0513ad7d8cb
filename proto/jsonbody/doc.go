// Package jsonbody reads the bodies of HTTP requests that are JSON, and writes those
// of answers. The plain JSON forms of limiters and brokers share it.
//
// What a body says is its reader's matter. Everything here may be used by any number
// of goroutines.
package jsonbody
