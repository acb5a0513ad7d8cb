// Package judge decides whether what was admitted of a budget conforms to its
// policy. It knows nothing of how the budget is shared.
package judge
