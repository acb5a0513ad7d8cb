package mutants

// windows are breakages of rolling and fixed windows, and of a change between
// kinds.
var windows = []Mutant{
	{
		Name: "releases-from-the-grant", Area: Windows, Rule: "C1", Seeds: 200, Scope: "window", Aim: "windows", With: "steps-are-not-checked",
		Breaks: "A spent token comes back a window after it was granted, not after its spend was settled.",
		Edits: []Edit{
			swap(ledgerFile, "l.settle(g.Spent - before.Spent)", "if "+on+" {\nif at := g.Opened.Add(l.Rule.Window); at > l.Updated && l.Rule.Kind == RollingWindow {\nl.retain(max(at, l.Updated+1), g.Spent-before.Spent)\n}\n} else {\nl.settle(g.Spent - before.Spent)\n}"),
		},
	},
	{
		Name: "releases-a-window-early", Area: Windows, Rule: "C1", Seeds: 100, Scope: "window", Aim: "windows", With: "steps-are-not-checked",
		Breaks: "A spent token comes back when its spend is settled.",
		Edits: []Edit{
			swap(windowFile, "l.retain(l.Updated.Add(l.Rule.Window), tokens)", "if !"+on+" {\nl.retain(l.Updated.Add(l.Rule.Window), tokens)\n}"),
		},
	},
	{
		Name: "windows-run-ahead", Area: Windows, Rule: "C2", Seeds: 200, Aim: "windows", With: "steps-are-not-checked",
		Breaks: "A spent token comes back an eighth of a window too early, as by a clock that is ahead.",
		Edits: []Edit{
			swap(windowFile, "l.Recovering[n].At <= l.Updated; n++ {", "l.Recovering[n].At <= l.Updated.Add(l.Rule.Window/map[bool]time.Duration{true: 8, false: 1 << 62}["+on+"]); n++ {"),
		},
	},
	{
		Name: "settled-counts-less", Area: Windows, Rule: "C1", Seeds: 200, Scope: "window", Aim: "windows", With: "steps-are-not-checked",
		Breaks: "Of what is settled, a token does not count.",
		Edits: []Edit{
			before(windowFile, "if tokens == 0 {\n\t\treturn\n\t}\n", "tokens = max(0, tokens-1)"),
		},
	},
	{
		Name: "coarsened-downward", Area: Windows, Rule: "C1", Seeds: 200, Aim: "busy-windows", With: "steps-are-not-checked",
		Breaks: "Where a window remembers too many releases, it puts them forward.",
		Edits: []Edit{
			swap(windowFile, "at = at.Add(l.Rule.releaseStep() - time.Duration(over))", "at = at.Add(l.Rule.releaseStep() - time.Duration(over))\nif "+on+" {\nat = at.Add(-l.Rule.releaseStep())\n}"),
		},
	},
	{
		Name: "attested-windows-are-free", Area: Windows, Rule: "C4.3", Seeds: 400, Aim: "attested-windows",
		Breaks: "What is attested to be lost is free at once, instead of after a window.",
		Edits: []Edit{
			swap(ledgerFile, "l.settle(counted)\n", "if !"+on+" {\nl.settle(counted)\n}\n"),
		},
	},
	{
		Name: "longer-window-forgets", Area: Windows, Rule: "C8", Seeds: 200, Aim: "window-policies", With: "steps-are-not-checked",
		Breaks: "A window that gets longer forgets what counts.",
		Edits: []Edit{
			swap(windowFile, "at > l.Updated {\n\t\t\tl.retain(at, r.Tokens)", "at > l.Updated && !(longer > 0 && "+on+") {\n\t\t\tl.retain(at, r.Tokens)"),
		},
	},
	{
		Name: "other-limit-forgets", Area: Windows, Rule: "C8", Seeds: 200, Scope: "windows", Aim: "window-policies", With: "steps-are-not-checked",
		Breaks: "A window whose limit changes forgets what counts.",
		Edits: []Edit{
			after(windowFile, "were := l.Recovering\n", "if rule.Capacity != l.Rule.Capacity {\nwere, l.Used = nil, 0\n}"),
		},
	},
	{
		Name: "period-is-entered-twice", Area: Windows, Rule: "C2", Seeds: 200, Aim: "stepping-clocks",
		Breaks: "A clock that is set back leads into a period that has been, which begins anew.",
		Edits: []Edit{
			before(windowFile, "l.ends = 0 // a clock was set back", "l.Began, l.Used = began, 0\nl.derive()\nreturn"),
			swap(calendarFile, "s.wall = max(s.wall, unixMs) }", "s.wall = max(s.wall*map[bool]int64{false: 1}["+on+"], unixMs) }"),
		},
	},
	{
		Name: "owners-forget-the-period", Area: Windows, Rule: "C2", Seeds: 400, Aim: "idle-calendars",
		Breaks: "A new owner tells periods by its own clock, which may stand before what the last one has used.",
		Edits: []Edit{
			swap(loadFile, "s.seen(head.CommittedUnixMs)", "if !"+on+" {\ns.seen(head.CommittedUnixMs)\n}"),
		},
	},
	{
		Name: "boundary-forgets-what-is-out", Area: Windows, Rule: "C1", Seeds: 200, Aim: "stepping-clocks",
		Breaks: "At a boundary, what is out counts as spent in the period that ends.",
		Edits: []Edit{
			after(windowFile, "l.Began, l.Used = began, 0", "for i := range l.Grants {\nl.Grants[i].Spent += l.Grants[i].Outstanding()\n}"),
		},
	},
	{
		Name: "period-does-not-count", Area: Windows, Rule: "C1", Seeds: 100, Aim: "stepping-clocks", With: "steps-are-not-checked",
		Breaks: "What is settled in a period does not count in it.",
		Edits: []Edit{
			swap(windowFile, "l.Used = plus(l.Used, tokens)", "if !"+on+" {\nl.Used = plus(l.Used, tokens)\n}"),
		},
	},
	{
		Name: "other-calendar-forgets", Area: Windows, Rule: "C8", Seeds: 400, Aim: "calendars",
		Breaks: "Another period, or another time zone, begins with nothing used.",
		Edits: []Edit{
			swap(windowFile, "l.Began, l.ends = 0, 0\n\t}\n\tl.Rule = rule", "l.Began, l.ends = 0, 0\nif "+on+" {\nl.Used = 0\n}\n\t}\n\tl.Rule = rule"),
		},
	},
	{
		Name: "another-kind-starts-full", Area: Windows, Rule: "C8", Seeds: 200, Aim: "kinds", With: "steps-are-not-checked",
		Breaks: "A rule of another kind starts with all that is not out.",
		Edits: []Edit{
			swap(windowFile, "l.settle(max(0, rule.Capacity-l.Reserved()))", "if !"+on+" {\nl.settle(max(0, rule.Capacity-l.Reserved()))\n} else if rule.Kind == TokenBucket {\nl.Available = max(0, rule.Capacity-l.Reserved())\n}"),
		},
	},
	{
		Name: "another-kind-forgets-what-is-out", Area: Windows, Rule: "C8", Seeds: 200, Aim: "kinds",
		Breaks: "A window that another kind becomes counts what is not out of its limit, and then forgets what is.",
		Edits: []Edit{
			after(windowFile, "l.Recovering, l.Used, l.Began, l.ends = nil, 0, 0, 0\n", "for i := range l.Grants {\nl.Grants[i].Spent += l.Grants[i].Outstanding()\n}"),
		},
	},
	{
		Name: "windows-are-dropped-early", Area: Windows, Rule: "C8", Seeds: 200, Aim: "idle-windows",
		Breaks: "The record of an idle window goes while something counts in it.",
		Edits: []Edit{
			swap(ledgerFile, "l.Cut == 0 && l.Counted() == 0", "l.Cut == 0 && (l.Counted() == 0 || "+on+")"),
			swap(ledgerFile, "return len(l.Grants) == 0 && l.Available == l.Rule.Capacity &&", "return len(l.Grants) == 0 && (l.Available == l.Rule.Capacity || l.Rule.Kind != TokenBucket && "+on+") &&"),
		},
	},
}
