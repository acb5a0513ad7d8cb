package strictyaml_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// reading reads the value of the field "v" of a file that has no other.
type reading func(p *strictyaml.Parser, v *strictyaml.Node, at string) any

// read reads "v: VALUE", and tells what is wrong without the file and the line.
func read(value string, how reading) (got any, problem string) {
	p := strictyaml.New("f.yaml")
	if top := p.Document([]byte("v: "+value+"\n"), "v"); top != nil {
		p.Mapping(top, "", []strictyaml.Field{{Name: "v", Required: true, Read: func(v *strictyaml.Node, at string) { got = how(p, v, at) }}})
	}
	var faults strictyaml.Faults
	if err := p.Err(); errors.As(err, &faults) {
		return got, faults[0].Problem
	}
	return got, ""
}

func duration(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	return p.Duration(v, at, time.Second, time.Hour)
}

func fromZero(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	return p.Duration(v, at, 0, time.Hour)
}

func offset(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	return p.Offset(v, at, time.Hour)
}

func count(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	return p.Count(v, at, "cats", 2, 9)
}

func percent(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	return p.Percent(v, at, 0, 50)
}

func number(p *strictyaml.Parser, v *strictyaml.Node, at string) any { return p.Decimal(v, at, 10) }

func choice(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	return p.Choice(v, at, "steady", "poisson")
}

func name(p *strictyaml.Parser, v *strictyaml.Node, at string) any { return p.Name(v, at, 5, "eu") }

func text(p *strictyaml.Parser, v *strictyaml.Node, at string) any { return p.Text(v, at, 20) }

func list(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	var all []string
	p.List(v, at, "cat", "cats", func(item *strictyaml.Node, at string) { all = append(all, at+"="+item.Value) })
	return strings.Join(all, " ")
}

func rate(p *strictyaml.Parser, v *strictyaml.Node, at string) any {
	n, interval := p.Rate(v, at, strictyaml.Rate{Name: "rate", Does: "feeds", Counted: "cats", Longest: time.Hour})
	return strictyaml.FormatRate(n, interval)
}

func TestValues(t *testing.T) {
	tests := []struct {
		how   reading
		value string
		want  any
	}{
		{duration, "90s", 90 * time.Second}, {duration, "1h", time.Hour}, {duration, `"2m"`, 2 * time.Minute}, {fromZero, "0s", time.Duration(0)},
		{offset, "-90s", -90 * time.Second}, {offset, "1h", time.Hour}, {offset, "0s", time.Duration(0)},
		{count, "2", int64(2)}, {count, "9", int64(9)},
		{percent, "0%", 0}, {percent, "50%", 50},
		{number, "1.1", 1.1}, {number, "0", 0.0}, {number, "10", 10.0}, {number, "0.000001", 0.000001},
		{choice, "poisson", "poisson"}, {choice, `"steady"`, "steady"},
		{name, "abcde", "abcde"}, {name, `"12"`, "12"},
		{text, "a  b", "a b"}, {text, ">\n  a\n  b\n", "a b"}, {text, "|\n  a\n\n  b\n", "a b"}, {text, "'12'", "12"},
		{text, `" a  b "`, " a  b "}, {text, "\"a\n  b\"", "a b"}, {text, "' a  b '", "a b"},
		{list, "[a, b]", "v[0]=a v[1]=b"},
		{rate, "3 per 2s", "3 per 2s"}, {rate, "120 per 60m", "120 per 1h"},
	}
	for _, test := range tests {
		if got, problem := read(test.value, test.how); got != test.want || problem != "" {
			t.Errorf("%q: got %v and %q, want %v", test.value, got, problem, test.want)
		}
	}
}

func TestProblems(t *testing.T) {
	tests := []struct {
		how         reading
		value, want string
	}{
		{duration, "0s", `"0s" has no length: want 1s or more`},
		{duration, "999ms", `"999ms" is too short: want at least 1s`},
		{duration, "3601s", `"3601s" is too long: want at most 1h`},
		{duration, "2", `"2" has no unit: want 2s, 2m, 2h or 2d`},
		{duration, `""`, `"" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`},
		{duration, "2 min", `"2 min" is not understood: want 2m`},
		{duration, "{a: 1}", "is a group of fields: want a length of time such as 90s"},
		{fromZero, "0", `"0" has no unit: want 0s`},
		{offset, "--1s", `"-1s" is not understood: want a whole number and one of ns, us, ms, s, m, h, d, such as 90s`},
		{offset, "-2h", `"2h" is too long: want at most 1h`},
		{offset, "", "is empty: want a length of time such as 90s or -90s"},
		{count, "1", "1 is too small: want at least 2"},
		{count, "10", "10 is too large: want at most 9"},
		{count, "2.5", `"2.5" is not whole: want a whole number of cats`},
		{percent, "51%", `is "51%": want 0% to 50%, in whole percent`},
		{percent, "-1%", `is "-1%": want 0% to 50%, in whole percent`},
		{percent, "5", `is "5": want 0% to 50%, in whole percent`},
		{number, "10.1", `is "10.1": want 0 to 10, such as 1.1`},
		{number, "-1", `is "-1": want 0 to 10, such as 1.1`},
		{number, "1e1", `is "1e1": want 0 to 10, such as 1.1`},
		{number, "1.", `is "1.": want 0 to 10, such as 1.1`},
		{number, ".5", `is ".5": want 0 to 10, such as 1.1`},
		{number, "0.0000001", `is "0.0000001": want 0 to 10, such as 1.1`},
		{number, ".nan", `is ".nan": want 0 to 10, such as 1.1`},
		{number, `"1.1"`, `is "1.1": want 0 to 10, such as 1.1`},
		{choice, "poison", `is "poison": did you mean poisson?`},
		{choice, "now and then", `is "now and then": want one of steady, poisson`},
		{choice, "[steady]", "is a list: want one of steady, poisson"},
		{name, "abcdef", "has 6 bytes: want 1 to 5"},
		{name, "true", `"true" reads as something else than a name: put it in quotes`},
		{text, "1.5", `"1.5" reads as something else than text: put it in quotes`},
		{text, `" "`, "has 0 bytes: want 1 to 20"},
		{text, `"a\nb"`, `"a\nb" has a control character: remove it`},
		{text, "[a]", "is a list: want a text"},
		{list, "[]", "is an empty list: want at least one cat"},
		{list, "a", `is "a": want a list of cats`},
		{rate, "0", `"0" is not a rate: want cats per interval, such as 20 per 1s`},
		{rate, "0 per 1s", `"0 per 1s" feeds nothing: want 1 or more`},
		{rate, "3", `"3" is not a rate: want an interval as well, such as 3 per 1s`},
		{rate, "3/min", `"3/min" is not a rate: want 3 per 1m`},
		{rate, "1 per 2h", `the interval "2h" is too long: want at most 1h`},
		{rate, "", "is empty: want cats per interval, such as 20 per 1s"},
	}
	for _, test := range tests {
		if _, got := read(test.value, test.how); got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.value, got, test.want)
		}
	}
}

// TestRefusedFields: a field that is refused is told why, and is not offered to
// those who mistype another.
func TestRefusedFields(t *testing.T) {
	p := strictyaml.New("f.yaml")
	top := p.Document([]byte("fast: 1\nfest: 2\nslow: 3\n"), "a speed")
	p.Mapping(top, "", []strictyaml.Field{
		{Name: "slow", Required: true, Read: func(v *strictyaml.Node, at string) { p.Number(v, at, "") }},
		{Name: "fast", Required: true, Refused: "is refused here"},
	})
	const want = "f.yaml:1: fast: is refused here\nf.yaml:2: fest: is unknown: want one of slow"
	if err := p.Err(); err == nil || err.Error() != want {
		t.Errorf("Err = %v, want %s", err, want)
	}
}

func TestLookup(t *testing.T) {
	p := strictyaml.New("f.yaml")
	top := p.Document([]byte("a: 1\nb: [x]\n"), "letters")
	if v := strictyaml.Lookup(top, "a"); v == nil || v.Value != "1" || v.Line != 1 {
		t.Errorf("a is %+v", v)
	}
	if v := strictyaml.Lookup(top, "c"); v != nil {
		t.Errorf("c is %+v", v)
	}
	if a, b, c := strictyaml.LineOf(top, "a"), strictyaml.LineOf(top, "b"), strictyaml.LineOf(top, "c"); a != 1 || b != 2 || c != 1 {
		t.Errorf("a, b and c stand in the lines %d, %d and %d, want 1, 2 and that of the top", a, b, c)
	}
	if line := strictyaml.LineOf(strictyaml.Lookup(top, "b"), "x"); line != 2 {
		t.Errorf("a field of a list stands in line %d, want that of the list", line)
	}
	if v := strictyaml.Lookup(strictyaml.Lookup(top, "b"), "x"); v != nil {
		t.Errorf("a list has the field %+v", v)
	}
	if !strictyaml.IsMapping(top) || strictyaml.IsList(top) || !strictyaml.IsList(strictyaml.Lookup(top, "b")) {
		t.Error("a mapping is taken for a list, or a list is not")
	}
}

func TestNothingWrongIsNil(t *testing.T) {
	p := strictyaml.New("f.yaml")
	if top := p.Document([]byte("a: 1\n"), "a"); top == nil || p.Err() != nil || p.Troubles() != 0 {
		t.Errorf("Document = %v, Err = %v", top, p.Err())
	}
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "1ns", 1500 * time.Millisecond: "1500ms", 90 * time.Second: "90s", time.Hour: "1h",
		24 * time.Hour: "1d", -time.Minute: "-1m", -1500 * time.Microsecond: "-1500us",
	} {
		if got := strictyaml.FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %s, want %s", d, got, want)
		}
	}
	for name, want := range map[string]string{
		"report.create": "report.create", "true": `"true"`, "12": `"12"`, "a b": `"a b"`, "": `""`, `a"`: `"a\""`, "größe": `"größe"`,
	} {
		if got := strictyaml.FormatName(name); got != want {
			t.Errorf("FormatName(%q) = %s, want %s", name, got, want)
		}
	}
	if got := strictyaml.FormatRate(0, time.Second); got != "0" {
		t.Errorf("FormatRate(0) = %s", got)
	}
}
