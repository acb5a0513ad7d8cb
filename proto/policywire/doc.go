// Package policywire turns policies of the core into messages and back. Both sides
// of the protocol, and readers of policy files, share it.
package policywire
