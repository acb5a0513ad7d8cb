package mutants

// restores are breakages of generations, which declared restores start.
var restores = []Mutant{
	{
		Name: "generation-is-not-compared", Area: Restores, Rule: "C6", Seeds: 400, Aim: "restores",
		Breaks: "Commits do not compare the generation, so one from before a restore is applied after it.",
		Edits: []Edit{
			before(eraFile, "guard := []store.Compare{{Key: l.Cluster()", "return nil"),
		},
	},
	{
		Name: "old-records-are-current", Area: Restores, Rule: "C6", Seeds: 100, Aim: "restores",
		Breaks: "The record that a copy has of a budget is taken for its state.",
		Edits: []Edit{
			swap(loadFile, "if stored.Since() != s.era.Generation ||", "if stored.Since() != s.era.Generation && !"+on+" ||"),
		},
	},
	{
		Name: "restored-budgets-are-full", Area: Restores, Rule: "C6", Seeds: 100, Aim: "restores",
		Breaks: "A budget without a record is full, after a restore too.",
		Edits: []Edit{
			swap(restoreFile, "case s.era.Generation == 1:\n\t\treturn lease.NewLedger", "case s.era.Generation == 1, "+on+":\n\t\treturn lease.NewLedger"),
		},
	},
	{
		Name: "restore-needs-no-attestation", Area: Restores, Rule: "C6", Seeds: 1000, Aim: "restores-over-sleepers",
		Breaks: "After a restore budgets refill at once, with processes of before still spending.",
		Edits: []Edit{
			swap(eraRecords, "return c.Generation > 1 && c.Attested != c.Generation", "return c.Generation > 1 && c.Attested != c.Generation && !"+on),
		},
	},
	{
		Name: "old-epochs-are-served", Area: Restores, Rule: "C6", Seeds: 100, Aim: "restores",
		Breaks: "An epoch of before a restore is granted credit after it.",
		Edits: []Edit{
			swap(loadFile, "f.Raise(s.era.Floor())", "if !"+on+" {\nf.Raise(s.era.Floor())\n}"),
			before(loadFile, "return &fence{Fence: lease.Fence{Holder: h, MinEpoch: s.era.Floor()}}", "return &fence{Fence: lease.Fence{Holder: h}}"),
			swap(eraFile, "return epoch < e.Floor() }", "return epoch < e.Floor() && !"+on+" }"),
		},
	},
	{
		Name: "epochs-start-over", Area: Restores, Rule: "C6", Seeds: 100, Aim: "restores",
		Breaks: "After a restore the epochs that the copy does not know are given out again.",
		Edits: []Edit{
			swap(registryFile, "Epoch: max(seen.Epoch, seen.era.Floor()) + 1,", "Epoch: max(seen.Epoch, seen.era.Floor()*map[bool]uint64{false: 1}["+on+"]) + 1,"),
		},
	},
	{
		Name: "restored-windows-know-too-much", Area: Restores, Rule: "C6", Seeds: 1000, Aim: "restored-windows",
		Breaks: "An attestation counts the copy's limit of a window as spent, where the lost history may have spent more, and the limit may be raised.",
		Edits: []Edit{
			swap(generationFile, "l.settle(MaxCapacity - rule.Capacity)", "if !"+on+" {\nl.settle(MaxCapacity - rule.Capacity)\n}"),
		},
	},
	{
		Name: "attested-budgets-are-full", Area: Restores, Rule: "C6", Seeds: 100, Aim: "restores",
		Breaks: "An attestation fills what was unknown, instead of counting it as spent.",
		Edits: []Edit{
			swap(restoreFile, "fresh := lease.NewSpent(lease.Key{Operation: operation}, pol.Rule, s.now)",
				"fresh := lease.NewSpent(lease.Key{Operation: operation}, pol.Rule, s.now)\nif "+on+" {\nfresh = lease.NewLedger(lease.Key{Operation: operation}, pol.Rule, s.now)\n}"),
		},
	},
}
