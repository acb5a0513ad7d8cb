package journal

import (
	"fmt"
	"testing"
)

// BenchmarkDraw is one durable draw in a journal that holds 1,000 grants. Its figures are those of the
// disk under the temporary directory; say TMPDIR to choose another.
func BenchmarkDraw(b *testing.B) {
	for _, grants := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("grants=%d", grants), func(b *testing.B) {
			cfg := testConfig(b)
			cfg.NoSync = false
			j := mustBegin(b, cfg, 1)
			draws := make([]Drawn, 1000)
			for i := range draws {
				draws[i].GrantID = grantName(i)
			}
			mustDraw(b, j, 1, draws...)
			b.ReportAllocs()
			next := 0
			for b.Loop() {
				if next+grants > len(draws) {
					next = 0
				}
				part := draws[next : next+grants]
				for i := range part {
					part[i].Tokens += 100
				}
				mustDraw(b, j, 1, part...)
				next += grants
			}
			b.ReportMetric(float64(b.N*grants)/b.Elapsed().Seconds(), "grants/s")
		})
	}
}

// BenchmarkOpen opens a journal that holds 100,000 grants of a crashed epoch, and reads them.
func BenchmarkOpen(b *testing.B) {
	cfg := testConfig(b)
	j := mustBegin(b, cfg, 1)
	draws := make([]Drawn, 100_000)
	for i := range draws {
		draws[i] = Drawn{grantName(i), int64(i)}
	}
	mustDraw(b, j, 1, draws...)
	must(b, j.Close())
	for b.Loop() {
		if got := len(reopen(b, cfg)[0].Drawn); got != len(draws) {
			b.Fatalf("%d grants", got)
		}
	}
}
