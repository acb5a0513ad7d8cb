package mutants

// harmless are changes that nobody notices: variations that are allowed and that
// other mutants are shown with, and breakages for which another rule makes up.
// They must not be caught: one that is has lost what made up for it.
var harmless = []Mutant{
	{
		Name: "handles-pin-budgets", Area: Spared, Rule: "none", Seeds: 15, Aim: "reopened",
		Breaks:   "Every budget is pinned, as handles do: its grant is closed when it goes idle, and the budget stays.",
		Harmless: "A limiter may have handles.",
		Edits: []Edit{
			after(worldDemand, "p.budgets[key] = &budget{Budget: holder.NewBudget(p.w.keys[key], p.signals)}", "p.budgets[key].Pin()"),
		},
	},
	{
		Name: "grants-are-rotated", Area: Spared, Rule: "none", Seeds: 15, Aim: "reopened",
		Breaks:   "A grant is closed for a new one while some of what was spent of it is not reported.",
		Harmless: "A holder may close a grant at any time; otherwise it does so far later.",
		Edits:    []Edit{swap(answerFile, "if k.issued > rotateAt {", "if k.issued > rotateAt || k.issued > 2 && k.unreported() > 0 && "+on+" {")},
	},
	{
		Name: "steps-are-not-checked", Area: Spared, Rule: "none", Seeds: 15, Aim: "windows",
		Breaks:   "The steps of ledgers are not checked, so that the judge alone may notice what is wrong with them.",
		Harmless: "It is a check less.",
		Edits:    []Edit{swap(worldMirror, "if err := lease.CheckStep(m.turned(b), &l); err != nil {", "if err := lease.CheckStep(m.turned(b), &l); err != nil && !"+on+" {")},
	},
	{
		Name: "answers-to-older-requests", Area: Spared, Rule: "C5.3", Seeds: 15, Aim: "reopened",
		Breaks:   "A holder applies answers to requests that are not its newest.",
		Harmless: "What was issued is told as a sum and merged by max, and grants that have been closed are remembered as long as a request is on its way.",
		Edits: []Edit{
			before(answerFile, "continue // a newer request of the budget is on its way",
				"if a := byKey[k.budget.Key]; a != nil && m.phase == running && !k.gone {\nm.apply(k, a, now)\n}"),
		},
	},
	{
		Name: "list-closes-what-is-awaited", Area: Spared, Rule: "C5.7", Seeds: 15, Aim: "reopened",
		Breaks:   "The comparison of grants closes as unspent what the answer on its way opens.",
		Harmless: "The answer is ignored, since the holder has closed the grant (C5.4).",
		Edits: []Edit{
			swap(finalFile, "k.grant == g.GetGrantId() || k.flight != 0)", "k.grant == g.GetGrantId() || k.flight != 0 && !"+on+")"),
		},
	},
	{
		Name: "attestation-does-not-fence", Area: Spared, Rule: "C4.3", Seeds: 15, Aim: "attested",
		Breaks:   "An attestation ends the grant, and leaves the epoch to open others by late requests.",
		Harmless: "What such a request opens is reserved as unknown credit, and can be attested as well.",
		Edits:    []Edit{without(resolveFile, "s.raise(f, max(g.Epoch+1, j.reg.Serves()), b)")},
	},
	{
		Name: "sequence-restarts", Area: Spared, Rule: "C5.3", Seeds: 15, Aim: "busy",
		Breaks:   "Sequence numbers start over when the holder forgets a budget.",
		Harmless: "Counters are sums, an answer belongs to its request by another number, and what a late request opens is closed by the comparison of grants; requests go short until the numbers have caught up.",
		Edits:    []Edit{after(managerFile, "delete(m.keys, k.budget.Key)", "m.sequence = 0")},
	},
	{
		Name: "deadlines-go-on-at-a-new-owner", Area: Spared, Rule: "C4.4", Seeds: 15, Aim: "deadlines-and-owners",
		Breaks:   "A new owner, or one that reads again, counts deadlines from when the budget was written last, not from when it began itself.",
		Harmless: "Every request that is answered for the first time is stored with the ledger time of that moment.",
		Edits:    []Edit{instead(loadFile, "e.ledger.Restart(s.now) // which is after the last answer of whoever owned the shard before", "e.ledger.Restart(0)")},
	},
}
