package envoy

import (
	_ "embed"
	"slices"
)

var (
	//go:embed failclosed/envoy.yaml
	failClosedConfig []byte
	//go:embed failclosed/descriptors.yaml
	failClosedMapping []byte
)

// FailClosedConfig is a whole configuration of Envoy that fails closed, as YAML
// with comments: a copy to start from.
func FailClosedConfig() []byte { return slices.Clone(failClosedConfig) }

// FailClosedMapping is the mapping that goes with [FailClosedConfig].
func FailClosedMapping() []byte { return slices.Clone(failClosedMapping) }
