package mutants

// slots are breakages of slots and of reservations, which are out of the hot path
// and neither spent nor free.
var slots = []Mutant{
	{
		Name: "journal-frees-drawn-slots", Area: Slots, Rule: "C1", Seeds: 200, Aim: "slots",
		Breaks: "After a crash the journal gives back slots that were drawn, with their work still going on.",
		Edits: []Edit{
			swap(ledgerFile, "used := min(max(g.Spent, drawn), g.Issued-g.Returned)\n\tif l.Rule.Kind == Concurrency {", "used := min(max(g.Spent, drawn), g.Issued-g.Returned)\n\tif l.Rule.Kind == Concurrency && !"+on+" {"),
		},
	},
	{
		Name: "slots-are-attested-early", Area: Slots, Rule: "C4.3", Seeds: 200, Aim: "attested-slots",
		Breaks: "An operator attests that a process is gone while work goes on that it had admitted.",
		Stands: "operator",
		Edits: []Edit{
			swap(worldChaos, "if p.alive || p.inUse(", "if p.alive || !"+on+" && p.inUse("),
		},
	},
	{
		Name: "final-account-frees-slots", Area: Slots, Rule: "C1", Seeds: 200, Aim: "stopped-slots",
		Breaks: "The account of a holder that stops, or closes a grant, gives back slots that are in use.",
		Edits: []Edit{
			swap(ledgerFile, "if !slots || !l.keep(id, held) {", "if !slots || "+on+" || !l.keep(id, held) {"),
		},
	},
	{
		Name: "kept-slots-trust-older-journals", Area: Slots, Rule: "C4.2", Seeds: 1000, Aim: "kept-slots",
		Breaks: "The counter of a journal is forgotten with its final account, though slots stay reserved, so an older copy gives them back.",
		Edits: []Edit{
			swap(accountFile, "!a.account.GetPartial() && !a.kept && f.Forget(epoch)", "!a.account.GetPartial() && (!a.kept || "+on+") && f.Forget(epoch)"),
		},
	},
	{
		Name: "held-counts-as-spent", Area: Slots, Rule: "C5.1", Seeds: 200, Aim: "slots",
		Breaks: "A holder reports slots in use as spent, and goes on using them.",
		Edits: []Edit{
			swap(keyFile, "return k.bound - credit - held\n", "if "+on+" && k.budget.holds.slots {\nreturn k.bound - credit\n}\nreturn k.bound - credit - held\n"),
		},
	},
	{
		Name: "reservations-count-as-spent", Area: Slots, Rule: "C5.1", Seeds: 400, Aim: "reservations",
		Breaks: "A holder reports a reservation as spent, and takes back what of it was not used.",
		Edits: []Edit{
			after(keyFile, "func (k *keyState) spent() int64 {\n\tcredit, held := k.budget.balance()", "if !k.budget.holds.slots {\nheld = 0\n}"),
		},
	},
	{
		Name: "slots-come-back-twice", Area: Slots, Rule: "C1", Seeds: 100, Aim: "slots",
		Breaks: "Work that ends gives its slots back twice.",
		Edits: []Edit{
			swap(holdFile, "s.Returned = b.free(h.tokens - cost)", "s.Returned = b.free(h.tokens - cost)\nif "+on+" {\ns.Returned += b.refill(h.tokens - cost)\n}"),
		},
	},
	{
		Name: "settled-costs-come-back", Area: Slots, Rule: "C1", Seeds: 200, Aim: "reservations",
		Breaks: "All of a reservation goes back when it is settled, what was used of it as well.",
		Edits: []Edit{
			before(holdFile, "switch {\n\tcase cost < 0, cost > h.tokens && !postpaid:", "cost = min(cost, 0)"),
		},
	},
	{
		Name: "lapsed-slots-come-back-twice", Area: Slots, Rule: "C1", Seeds: 200, Aim: "long-work",
		Breaks: "Slots whose time is over go back, and again when their work ends.",
		Edits: []Edit{
			after(holdFile, "returned += b.free(h.tokens)", "h.until = 1 << 62\nb.holds.add(h)\nb.holds.held.Add(-h.tokens)"),
		},
	},
	{
		Name: "lapses-early", Area: Slots, Rule: "C1", Seeds: 200, Aim: "long-work",
		Breaks: "Slots go back before the time is over that the policy gives to work.",
		Edits: []Edit{
			swap(holdFile, "len(*line) > 0 && now >= (*line)[0].until; {", "len(*line) > 0 && now >= (*line)[0].until-time.Second*map[bool]time.Duration{true: 1}["+on+"]; {"),
		},
	},
	{
		Name: "stale-holds-return", Area: Slots, Rule: "C5.4", Seeds: 400, Aim: "kinds-over-holds",
		Breaks: "What was held of a grant that was closed, since its rule has become one of another kind, goes back into the next one.",
		Edits: []Edit{
			swap(holdFile, "b.holds.held.Store(0)\n\tb.holds.byID, b.holds.byTime = nil, nil\n\treturn slots", "if "+on+" {\nreturn slots\n}\nb.holds.held.Store(0)\n\tb.holds.byID, b.holds.byTime = nil, nil\n\treturn slots"),
		},
	},
	{
		Name: "returns-what-is-held", Area: Slots, Rule: "C5.3", Seeds: 200, Aim: "slots",
		Breaks: "A holder that is asked for credit returns slots that are in use.",
		Edits: []Edit{
			swap(keyFile, "k.returned += fromUndrawn + taken\n", "k.returned += fromUndrawn + taken\nif "+on+" {\nheld := min(k.held(), k.bound)\nk.bound -= held\nk.returned += held\nk.budget.holds.held.Add(-held)\n}\n"),
		},
	},
	{
		Name: "closes-over-holds", Area: Slots, Rule: "C5.4", Seeds: 400, Aim: "stopped-slots",
		Breaks: "The close of a grant does not tell how many slots of it are in use.",
		Edits: []Edit{
			swap(drawFile, "id: k.grant, held: slots,", "id: k.grant, held: slots * map[bool]int64{false: 1}["+on+"],"),
		},
	},
	{
		Name: "slots-are-free-of-what-is-out", Area: Slots, Rule: "C8", Seeds: 400, Aim: "kinds",
		Breaks: "A rule that becomes one of slots starts with all of them, whatever is out.",
		Edits: []Edit{
			swap(windowFile, "\tl.derive()\n}\n\n// memory is", "\tl.derive()\nif "+on+" && rule.Kind == Concurrency {\nl.Available = rule.Capacity\n}\n}\n\n// memory is"),
		},
	},
}
