// Package nearest finds the known word that a mistyped one was meant to be, for
// messages such as "unknown field capacty: did you mean capacity?".
package nearest

import "strings"

// maxWord is the longest word that is compared, in bytes. A longer one is no
// slip of the fingers.
const maxWord = 64

// Word is the known word that is nearest to word, or "" when none is near: two
// edits away, or one third of its length if that is more. Upper and lower case
// count as equal, and of two words equally near the first is taken.
func Word(word string, known []string) string {
	if len(word) > maxWord {
		return ""
	}
	best, bestDistance := "", len(word)
	for _, candidate := range known {
		d := distance(strings.ToLower(word), strings.ToLower(candidate))
		if d <= max(2, len(candidate)/3) && d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes: how many insertions, deletions
// and replacements lead from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0] // of the row before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := diagonal
			if a[i-1] != b[j-1] {
				replaced++
			}
			diagonal = row[j]
			row[j] = min(replaced, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
