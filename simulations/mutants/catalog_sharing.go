package mutants

// sharing are breakages of how what there is gets shared.
var sharing = []Mutant{
	{
		Name: "grants-beyond-available", Area: Sharing, Rule: "C1", Seeds: 100, Scope: "small",
		Breaks: "A holder is granted its share whether it is available or not.",
		Edits: []Edit{
			swap(ledgerFile, "return max(0, min(l.Available, l.Rule.ShareCap()-l.HeldBy(holder)))",
				"if "+on+" {\nreturn max(0, l.Rule.ShareCap()-l.HeldBy(holder))\n}\nreturn max(0, min(l.Available, l.Rule.ShareCap()-l.HeldBy(holder)))"),
		},
	},
	{
		Name: "shares-are-not-capped", Area: Sharing, Rule: "C4", Seeds: 100,
		Breaks: "What a holder has out does not count when its share is worked out, so one dark region can pin the budget.",
		Edits: []Edit{
			swap(ledgerFile, "if l.Grants[i].Holder == holder {", "if l.Grants[i].Holder == holder && !"+on+" {"),
			before(demandFile, "wants[i] = lease.Demand{", "limit = e.ledger.Rule.Capacity"),
		},
	},
}
