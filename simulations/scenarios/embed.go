// Package scenarios has the scenarios that come with the program. Each is about
// one page, and one lesson.
package scenarios

import "embed"

// Files are the scenario files: NAME.yaml.
//
//go:embed *.yaml
var Files embed.FS
