// Package deploy has what it takes to run tokenlease: a Dockerfile, manifests for
// Kubernetes and units for systemd. They are files for people to copy and change;
// nothing of the program uses them.
//
//	Dockerfile                          a static binary, as a user without rights
//	kubernetes/broker.yaml              three brokers on an etcd cluster of your own
//	kubernetes/limiter.yaml             limiters of one region, each with its journal
//	systemd/tokenlease-broker.service   a broker with an etcd of its own
//	systemd/tokenlease-limiter.service  a limiter beside a gateway
//	systemd/*.yaml                      their settings
//
// The tests hold them to what can be told without a cluster: the manifests decode
// strictly into the types of Kubernetes, the arguments and settings are those of the
// program, nothing runs as root, and a limiter's journal is on a volume that one
// process at a time can open.
package deploy

import "embed"

// Files are all of them, by the paths above.
//
//go:embed Dockerfile kubernetes systemd
var Files embed.FS
