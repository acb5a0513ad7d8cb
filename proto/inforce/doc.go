// Package inforce tells which policy rules an operation, and for whom it stands, from
// what the Admin service lists.
//
// A policy of an account goes before that of its plan, and that before the one for
// everybody. An account without a plan of its own is on the default plan. An operation
// that an operator has disabled is denied whatever rules it.
//
// It is for showing, and for requests that keep what they do not name: brokers decide
// by their own records. Functions here are pure, and change no message that they read.
package inforce
