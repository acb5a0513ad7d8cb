package report

import (
	"math"
	"testing"
	"time"
)

func TestNumbersAsShown(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(0), "0"},
		{count(999), "999"},
		{count(1000), "1,000"},
		{count(-1234567), "-1,234,567"},
		{count(math.MaxInt64), "9,223,372,036,854,775,807"},
		{count(math.MinInt64), "-9,223,372,036,854,775,808"},
		{percent(0.98765), "98.8%"},
		{percent(math.NaN()), "-"},
		{percent(math.Inf(1)), "-"},
		{decimal(0), "0"},
		{decimal(0.0341666), "0.0342"},
		{decimal(1.5), "1.50"},
		{decimal(99.96), "100.0"},
		{decimal(123456.7), "123,457"},
		{decimal(0.0000123), "1.23e-05"},
		{decimal(2e18), "2.00e+18"},
		{decimal(math.NaN()), "-"},
		{duration(0), "0s"},
		{duration(1500 * time.Microsecond), "2ms"},
		{duration(15 * time.Microsecond), "15µs"},
		{duration(12346 * time.Millisecond), "12.35s"},
		{duration(2 * time.Minute), "2m"},
		{duration(2 * time.Hour), "2h"},
		{duration(90 * time.Second), "1m30s"},
		{duration(10*time.Hour + 10*time.Minute), "10h10m"},
		{amount(0, 1e6), "0"},
		{amount(5000, 9000), "5000"},
		{amount(5000, 12000), "5k"},
		{amount(2.5e12, 3e12), "2.5T"},
		{amount(0.2, 1), "0.2"},
		{plain("a region"), "a region"},
		{plain("a\nb"), `"a\nb"`},
		{printable("  a\n\tb \x00"), "a b \uFFFD"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for file, want := range map[string]string{
		"simulations/scenarios/lost-region.yaml": "lost-region",
		`C:\scenarios\lost.yml`:                  "lost",
		"plain":                                  "plain",
	} {
		run := invented(1, 1)
		run.Scenario.File = file
		if got := run.name(); got != want {
			t.Errorf("%s is called %s, want %s", file, got, want)
		}
	}
}
