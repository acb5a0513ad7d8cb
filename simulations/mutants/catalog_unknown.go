package mutants

// unknown are breakages of what happens to credit of which nobody knows whether
// it was spent.
var unknown = []Mutant{
	{
		Name: "new-epoch-returns-the-old", Area: Unknown, Rule: "C4", Seeds: 100, Scope: "restart",
		Breaks: "The first report of a new epoch gives back what earlier epochs of its holder have out.",
		Edits: []Edit{
			before(reportFile, "if !e.exists && ruled {", `
				for i := 0; i < len(e.ledger.Grants); i++ {
					if g := e.ledger.Grants[i]; g.Holder == j.holder && g.Epoch < j.req.GetEpoch() && e.ledger.Close(s.now, g.ID, 0, 0, 0) == nil {
						b.endGrant(s, e, g, Attested, 0, "")
						i--
					}
				}`),
		},
	},
	silenced("silence-returns-credit", "What a silent holder has out is given back after a while.",
		"if live := e.ledger.Live(j.holder, j.req.GetEpoch()); live != nil {\n\t\tanswer.GrantId", "e.ledger.Close(s.now, g.ID, 0, 0, 0) == nil"),
	silenced("silence-counts-as-spent", "What a silent holder has out counts as spent after a while.",
		"if ruled && s.install(e, pol, b) {", "attested(e.ledger.Attest(s.now, g.ID))"),
	{
		Name: "attestation-gives-a-burst", Area: Unknown, Rule: "C4.3", Seeds: 100, Scope: "restart", Aim: "attested",
		Breaks: "What is attested to be lost is available at once, not through refill.",
		Edits:  []Edit{swap(ledgerFile, "l.end(id, false)", "l.end(id, "+on+")")},
	},
	{
		Name: "attestation-of-the-living", Area: Unknown, Rule: "C4.3", Seeds: 100,
		Breaks: "An operator attests that a process has ended which runs on.",
		Stands: "operator",
		Edits:  []Edit{swap(worldChaos, "func(g record.Grant) bool { return !w.gone(g) })", "func(g record.Grant) bool { return !w.gone(g) && !"+on+" })")},
	},
	{
		Name: "epochs-are-shared", Area: Unknown, Rule: "C3.3", Seeds: 100, Aim: "rivals",
		Breaks: "A new start of a holder gets the epoch that the last one has.",
		Edits: []Edit{
			swap(registryFile, "case seen.StartNonce == req.GetStartNonce() && !seen.era.Fences(seen.Epoch):",
				"case seen.StartNonce == req.GetStartNonce() && !seen.era.Fences(seen.Epoch), seen.Epoch > 0 && "+on+":"),
		},
	},
	{
		Name: "registration-is-not-guarded", Area: Unknown, Rule: "C3.5", Seeds: 200, Aim: "rivals",
		Breaks: "A registration is written whatever has been written since it was read.",
		Edits: []Edit{
			after(registryFile, "t := store.Txn{If: append([]store.Compare{{Key: key, Target: store.ModRevision, Revision: seen.revision}}, seen.era.Guard(layout)...)}", `t.If = []store.Compare{{Key: "/never", Target: store.ModRevision}}`),
		},
	},
	{
		Name: "fenced-holder-spends-on", Area: Unknown, Rule: "C3.3", Seeds: 200, Scope: "fail-over",
		Breaks: "A holder that is fenced or stopped hands in its account, and leaves the credit in the hot path.",
		Edits: []Edit{
			swap(drawFile, "k.bound -= k.budget.take(math.MaxInt64)\n\tk.tellOwed()",
				"if m.phase == ending && "+on+" {\nk.bound -= k.credit()\n} else {\nk.bound -= k.budget.take(math.MaxInt64)\n}\n\tk.tellOwed()"),
		},
	},
	{
		Name: "fenced-epoch-gets-credit", Area: Unknown, Rule: "C3.3", Seeds: 400,
		Breaks: "The broker grants credit to an epoch that it has fenced.",
		Edits: []Edit{
			swap(reportFile, "case s.fence(j.holder).Fences(j.req.GetEpoch()):\n", "case s.fence(j.holder).Fences(j.req.GetEpoch()) && !"+on+":\n"),
		},
	},
	{
		Name: "final-account-does-not-fence", Area: Unknown, Rule: "C5.6", Seeds: 400, Aim: "stops",
		Breaks: "A final account leaves its epoch open to late requests.",
		Edits:  []Edit{without(accountFile, "s.raise(f, epoch+1, b)")},
	},
	{
		Name: "late-registration-fences", Area: Unknown, Rule: "C3.3", Seeds: 400, Aim: "late-registrations",
		Breaks: "A registration is served whatever epoch it names, so a late repetition fences the current start.",
		Edits: []Edit{
			swap(registryFile, "case seen.Epoch != req.GetReplacesEpoch():", "case seen.Epoch != req.GetReplacesEpoch() && !"+on+":"),
		},
	},
}

// silenced is a mutant that ends what holders have out who were not heard of for
// some seconds.
func silenced(name, breaks, place, end string) Mutant {
	return Mutant{
		Name: name, Area: Unknown, Rule: "C4", Seeds: 100, Breaks: breaks,
		Edits: []Edit{
			before(reportFile, place, `
				attested := func(_ int64, err error) bool { return err == nil }
				_ = attested
				for i := 0; i < len(e.ledger.Grants); i++ {
					g := e.ledger.Grants[i]
					at, found := e.findDemand(g.Holder)
					if g.Holder == j.holder || found && s.moment.Mono-e.demands[at].heard < 3e9 || s.now.Sub(g.Opened) < 3e9 {
						continue
					}
					if `+end+` {
						b.endGrant(s, e, g, Attested, 0, "")
						i--
					}
				}`),
		},
	}
}
