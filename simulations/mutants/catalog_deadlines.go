package mutants

// deadlines are breakages of what silence does under a policy that says so: until
// when a holder spends, and when what it has out counts as spent.
var deadlines = []Mutant{
	{
		Name: "margin-is-forgotten", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines", Scope: "deadline",
		Breaks: "What a holder has out counts as spent as soon as its own time is over, with no margin for its clocks and pauses.",
		Edits:  []Edit{before(policyFile, "return p.MaxStaleness + p.ReclaimMargin", "return p.MaxStaleness")},
	},
	{
		Name: "counts-from-the-answer", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines", Scope: "deadline",
		Breaks: "A holder counts its time from when the answer came, not from before the request was sent.",
		Edits:  []Edit{swap(untilFile, "untilAfter(k.sentClocks, bound, m.cfg.Clocks)", "untilAfter(m.sentClocksOf(k), bound, m.cfg.Clocks)"), swap(untilFile, "// boundNs is what a report tells", "func (m *Manager) sentClocksOf(k *keyState) Clocks {\nif "+on+" {\nreturn m.cfg.Clocks()\n}\nreturn k.sentClocks\n}\n\n// bound is what a report tells")},
	},
	{
		Name: "sleep-is-not-counted", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines",
		Breaks: "A holder stops by its monotonic clock alone, which stands still while the machine sleeps.",
		Edits:  []Edit{after(untilFile, "now := u.read()", "now.Boot, now.Wall = -1<<62, -1<<62")},
	},
	{
		Name: "boot-clock-is-not-read", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines",
		Breaks: "A holder stops by its monotonic and its wall clock, which may have been set back while the machine slept.",
		Edits:  []Edit{swap(untilFile, "now.Boot >= u.Boot", "now.Boot >= u.Boot && !"+on)},
	},
	{
		Name: "wall-clock-is-not-read", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines",
		Breaks: "A holder does not stop by its wall clock, which alone tells of sleep where there is no boot clock.",
		Edits:  []Edit{swap(untilFile, "now.Wall >= u.Wall", "now.Wall >= u.Wall && !"+on)},
	},
	{
		Name: "staleness-is-ignored", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines", Scope: "deadline",
		Breaks: "A holder spends what it has, however old the newest answer is.",
		Edits:  []Edit{before(untilFile, "u := b.until.Load()", "return false")},
	},
	{
		Name: "reservations-ignore-staleness", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines-of-reservations",
		Breaks: "Reservations are made from credit that is too old to be spent.",
		Edits:  []Edit{swap(holdFile, "if b.Stale() {\n\t\treturn 0, false", "if b.Stale() && !"+on+" {\n\t\treturn 0, false")},
	},
	{
		Name: "new-owner-lapses-at-once", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines-and-owners", Scope: "deadline",
		Breaks: "A new owner, or one that reads again, takes every deadline for passed.",
		Edits:  []Edit{after(lapseFile, "func (l *Ledger) Restart(now Time) {", "return")},
	},
	{
		Name: "new-owner-counts-from-the-opening", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines-and-owners",
		Breaks: "A new owner counts deadlines from when the grants were opened, not from when it began itself.",
		Edits:  []Edit{after(lapseFile, "l.Extend(now, l.Grants[i].ID, l.Grants[i].Lasts)", "l.Grants[i].Lapses = l.Grants[i].Opened.Add(l.Grants[i].Lasts)")},
	},
	{
		Name: "lapse-gives-a-burst", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines",
		Breaks: "What has lapsed is available at once, instead of counting as spent.",
		Edits:  []Edit{before(lapseFile, "return l.Attest(now, id)", "l.Advance(now)\ncounted = g.Outstanding()\nl.end(id, true)\nreturn counted, nil")},
	},
	{
		Name: "shorter-bound-at-once", Area: Deadlines, Rule: "C4.4", Seeds: 1500, Aim: "deadlines-that-are-not-heard-of",
		Breaks: "The broker counts a new policy's shorter bound before the holder goes by it.",
		Edits:  []Edit{swap(reportFile, "bound <= pol.MaxStaleness &&", "(bound <= pol.MaxStaleness || "+on+") &&")},
	},
	{
		Name: "unbound-holder-lapses", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines-that-are-not-heard-of",
		Breaks: "A new deadline is counted for a holder that has said that nothing bounds it.",
		Edits:  []Edit{swap(reportFile, "if bound == 0 {", "if bound == 0 && !"+on+" {")},
	},
	{
		Name: "holder-tells-no-bound", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines-that-are-not-heard-of",
		Breaks: "A holder does not tell the bound that it goes by, as if it had nothing.",
		Edits:  []Edit{swap(untilFile, "case k.grant == \"\":\n", "case k.grant == \"\", "+on+":\n")},
	},
	{
		Name: "deadline-outlives-its-policy", Area: Deadlines, Rule: "C4.4", Seeds: 400, Aim: "deadlines-and-policies", Scope: "then-never",
		Breaks: "A deadline stays as it was when the policy has none any more.",
		Edits: []Edit{
			swap(lapsesFile, "!ruled || pol.LapsesAfter() == 0 {", "(!ruled || pol.LapsesAfter() == 0) && !"+on+" {"),
			before(reportFile, "if extend(s.now, live.ID, lasts) {", "if lasts == 0 {\nreturn\n}"),
		},
	},
	{
		Name: "deadline-comes-back", Area: Deadlines, Rule: "C4.4", Seeds: 1500, Aim: "deadlines-and-policies",
		Breaks: "A deadline stays stored when the policy has none, and holds again once it has one.",
		Edits:  []Edit{before(reportFile, "extend := e.ledger.Prolong\n", "if lasts == 0 {\nreturn\n}")},
	},
	{
		Name: "repetition-shortens", Area: Deadlines, Rule: "C4.4", Scope: "sooner",
		Breaks: "The second answer to a request counts for the deadline, though the holder may apply the first one.",
		Edits:  []Edit{after(reportFile, "first := !j.rerun && answer.GetShortage() != pb.Shortage_SHORTAGE_STALE && r.GetGrantId() == answer.GetGrantId()", "first = true")},
	},
	{
		Name: "requests-put-nothing-off", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines", Scope: "deadline",
		Breaks: "A deadline is counted from the first request, and no later one puts it off.",
		Edits:  []Edit{before(lapseFile, "g.Lasts, g.Lapses = lasts, 0", "if lasts > 0 && g.Lapses > 0 {\nreturn false\n}")},
	},
	{
		Name: "deadline-a-second-early", Area: Deadlines, Rule: "C4.4", Seeds: 200, Aim: "deadlines",
		Breaks: "A deadline passes a second early.",
		Edits:  []Edit{before(lapseFile, "g.Lapses = max(now, l.Updated).Add(lasts)", "lasts -= 1e9")},
	},
}
