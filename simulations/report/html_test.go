package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tokenlease/tokenlease/simulations/measure"
)

func page(t *testing.T, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// element is one element of a page, with its attributes and the text right in it.
type element struct {
	name, text string
	attributes map[string]string
}

// elements parses a page, which is well-formed XML as well, and fails for one
// that is not.
func elements(t *testing.T, source string) []*element {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(source))
	decoder.Entity = xml.HTMLEntity
	var all, open []*element
	for {
		token, err := decoder.Token()
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(token)
			}
		}
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestHTMLIsOneWellFormedPage(t *testing.T) {
	failed := invented(6, 1_000_000_000_000, flapping(30)...)
	failed.Results[0].Broken = "over-admission\nreplay: tokenlease simulate"
	source := page(t, invented(3, 40), failed)
	ids, links := map[string]bool{}, []string{}
	for _, e := range elements(t, source) {
		switch e.name {
		case "script", "link", "img", "iframe", "image", "object":
			t.Errorf("the page has a <%s>", e.name)
		case "a":
			links = append(links, e.attributes["href"])
		}
		if id := e.attributes["id"]; id != "" {
			if ids[id] {
				t.Errorf("id %s is there twice", id)
			}
			ids[id] = true
		}
	}
	for _, link := range links {
		if !strings.HasPrefix(link, "#") || !ids[link[1:]] {
			t.Errorf("link to %s", link)
		}
	}
	if len(links) < 2*2+2 {
		t.Errorf("%d links", len(links))
	}
	// Drawings name their namespace. It is no address that anybody calls.
	if rest := strings.ReplaceAll(source, `xmlns="http://www.w3.org/2000/svg"`, ""); strings.Contains(rest, "://") {
		t.Error("the page names something on a network")
	}
}

func TestHTMLHasEachSection(t *testing.T) {
	failed := invented(3, 40, measure.Span{From: 20 * time.Second, Until: 30 * time.Second, Label: "crash region-1"})
	failed.Findings[1].OK = false
	failed.Results[0].Broken = "over-admission of 3 tokens"
	source := page(t, invented(2, 100), failed)
	for _, part := range []string{
		"<h2>Contents</h2>", "<h2>Overview</h2>", "1 FAILED", "What it held stays reserved. Nobody else can spend it.</p>",
		"Its journal proves what was never spent.</p>", "capacity B 40 tokens, refill R 20/s", "9f86d081884c7d65",
		"line 41: recovery at most 2: 1.25", "over-admission of 3 tokens", "crash region-1: 20s to 30s",
		"worst excess of other strategies", "min(1, B / (R · tau))", "tokenlease by region",
	} {
		if !strings.Contains(source, part) {
			t.Errorf("no %q", part)
		}
	}
	for _, q := range quantities {
		if !strings.Contains(source, "<dt>"+q.name+"</dt>") {
			t.Errorf("%s is not explained", q.name)
		}
	}
	if n := strings.Count(source, "<svg"); n != 2*2 {
		t.Errorf("%d drawings, want 2 of each run", n)
	}
}

func TestHTMLOfOneScenarioWithoutSeries(t *testing.T) {
	run := invented(1, 40)
	run.Results[0].Series = nil
	source := page(t, run)
	elements(t, source)
	if strings.Contains(source, "Overview") || strings.Count(source, "<svg") != 1 {
		t.Error("want no overview, and the bars alone")
	}
}

func TestHTMLEscapesWhatFilesSay(t *testing.T) {
	const hostile = "<script>alert(1)</script>\"'&\x1b\x00\u202e]]>"
	run := invented(3, 40, measure.Span{From: time.Second, Until: 2 * time.Second, Label: hostile})
	run.Scenario.Title, run.Scenario.Lesson, run.Scenario.File = hostile, hostile, hostile
	run.Scenario.Regions[0].Name, run.Results[0].Regions[0].Name = hostile, hostile
	run.Scenario.Policies[0].Operation = hostile
	run.Findings[0].Text, run.Results[0].Broken, run.Results[2].Strategy = hostile, hostile, hostile
	source := page(t, run, run)
	var shown int
	for _, e := range elements(t, source) {
		if e.name == "script" {
			t.Fatal("a script got through")
		}
		if strings.Contains(e.text, "<script>alert(1)</script>\"'&\uFFFD\uFFFD\uFFFD]]>") {
			shown++
		}
	}
	if shown < 20 {
		t.Errorf("the text is shown %d times", shown)
	}
}

func TestHTMLIsTheSameForTheSameRun(t *testing.T) {
	first := invented(3, 40, flapping(30)...)
	second := invented(3, 40, flapping(30)...)
	second.Wall *= 3 // real time is not on the page
	if page(t, first) != page(t, second) {
		t.Error("two pages of one run differ")
	}
}
