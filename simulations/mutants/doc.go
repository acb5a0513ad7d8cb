// Package mutants breaks the rules of the contract in the real code, one at a
// time, to show that the simulations notice.
//
// A [Mutant] is an edit of the source text: a snippet that occurs once in one
// file, and what stands there in its stead. The new text switches at run time,
//
//	if mutation.Is("reports-are-deltas") { ... } else { what stood there }
//
// so the edits of all mutants go into one program. They are made to copies of the
// files, which `go build -overlay` puts in the place of the real ones, together
// with the package mutation, which exists nowhere else: the code that ships
// carries no trace of them.
//
// The program is package run. It goes through worlds of the swarm, or through all
// histories of a small scope, until a check fails. A mutant that lives means that
// a check, or what leads there, is too weak. The same program with every mutant
// switched off must find nothing, and must behave like the code that ships, to
// the bit.
//
// Some changes are harmless, since another rule makes up for them. They are kept
// with the reason, and must not be caught; mutants that nothing would show
// otherwise are switched on together with one of them.
//
// # Bringing a mutant up to date
//
// When the code has changed, so that a snippet does not occur once any more,
// TestEditsApply names the mutant. Read what it breaks, find the place where the
// rule is kept now, and write the edit anew. When a mutant lives, look at what it
// does:
//
//	go test ./simulations/mutants -run TestMutantsAreCaught -v
//
// and aim the worlds at it, or strengthen the checks. TestScopes with -search
// tells which scopes show each mutant. TABLE.md is written by
//
//	go test ./simulations/mutants -run TestMutantsAreCaught -update
package mutants
