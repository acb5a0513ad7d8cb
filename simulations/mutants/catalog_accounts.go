package mutants

// accounts are breakages of what holder and broker tell each other about a
// grant.
var accounts = []Mutant{
	{
		Name: "reports-are-deltas", Area: Accounts, Rule: "C5.1", Seeds: 100, Scope: "idle",
		Breaks: "A report tells what was spent since the last one, and the broker adds it up.",
		Edits: []Edit{
			swap(keyFile, "k.sentSpent, k.sentReturned = k.spent(), k.returned\n\tneed := k.need",
				"unreported := k.unreported()\n\tk.sentSpent, k.sentReturned = k.spent(), k.returned\n\tneed := k.need"),
			swap(keyFile, "\t\tSpentTokens: k.sentSpent, ReturnedTokens: k.returned,\n",
				"\t\tSpentTokens: map[bool]int64{true: unreported, false: k.sentSpent}["+on+"], ReturnedTokens: k.returned,\n"),
			swap(drawFile, "spent: k.bound, returned: k.returned}",
				"spent: k.bound - map[bool]int64{true: k.sentSpent}["+on+"], returned: k.returned}"),
			swap(grantFile, "highSpent, highReturned := max(spent, g.Spent), max(returned, g.Returned)",
				"highSpent, highReturned := max(spent, g.Spent), max(returned, g.Returned)\nif "+on+" {\nhighSpent = min(g.Spent+spent, g.Issued-highReturned)\n}"),
		},
	},
	{
		Name: "last-report-wins", Area: Accounts, Rule: "C5.1", Seeds: 100, Scope: "policy",
		Breaks: "The report that arrives last overwrites the counters, however old it is.",
		Edits: []Edit{
			swap(grantFile, "g.Spent, g.Returned = highSpent, highReturned",
				"g.Spent, g.Returned = highSpent, highReturned\nif "+on+" {\ng.Spent, g.Returned = spent, returned\n}"),
		},
	},
	{
		Name: "accounts-match-by-key", Area: Accounts, Rule: "C5.2", Seeds: 200, Scope: "idle", Aim: "reopened",
		Breaks: "What is said of a grant that has ended is applied to the one that its epoch has now.",
		Edits: []Edit{
			swap(syncFile, "g := e.ledger.Grant(id)\n\tif g != nil && (g.Holder",
				"g := e.ledger.Grant(id)\nif g == nil && "+on+" {\ng = e.ledger.Live(j.holder, j.req.GetEpoch())\n}\n\tif g != nil && (g.Holder"),
		},
	},
	{
		Name: "late-account-is-credited", Area: Accounts, Rule: "C5.5", Seeds: 100, Aim: "reopened",
		Breaks: "A late report of a grant that has ended gives back what it says was returned.",
		Edits: []Edit{
			after(reportFile, "answer.Gone, j.gave = true, true", "if e.exists {\ne.ledger.Advance(s.now)\n"+
				"e.ledger.Available = max(e.ledger.Available, min(e.ledger.Rule.Capacity-e.ledger.Reserved(), e.ledger.Available+r.GetReturnedTokens()))\nb.touch(e)\n}"),
		},
	},
	{
		Name: "a-return-counts-each-time", Area: Accounts, Rule: "C5.1", Seeds: 100, Scope: "commits",
		Breaks: "Each report of a return is credited whole, not only what is new in it.",
		Edits: []Edit{
			after(ledgerFile, "if err := g.merge(spent, returned, owed); err != nil {\n\t\treturn err\n\t}", "l.Available += before.Returned"),
		},
	},
	{
		Name: "close-ignores-its-counters", Area: Accounts, Rule: "C4.1", Seeds: 100, Scope: "fail-over", Aim: "stops",
		Breaks: "A close gives back all that was not reported as spent before, whatever its own counters say.",
		Edits: []Edit{
			before(ledgerFile, "if err := l.Account(now, id, spent, returned, owed); err != nil {", "spent, returned = 0, 0"),
		},
	},
	{
		Name: "grant-ids-start-over", Area: Accounts, Rule: "C3.4", Seeds: 100, Scope: "fail-over",
		Breaks: "A new owner, or one that reads again, numbers grants from 1.",
		Edits: []Edit{
			after(loadFile, "s.headRevision, s.nextGrant, s.cleared = r.KVs[0].ModRevision, head.NextGrant, head.Cleared", "s.nextGrant = 1"),
		},
	},
	{
		Name: "late-answer-revives-a-grant", Area: Accounts, Rule: "C5.4", Seeds: 200, Scope: "idle",
		Breaks: "A holder takes up a grant again that it has closed, when an answer names it.",
		Edits: []Edit{
			swap(answerFile, `if id == "" || k.shard.knowsClosed(id) {`, `if id == "" || k.shard.knowsClosed(id) && !`+on+` {`),
		},
	},
	{
		Name: "confirmed-close-is-forgotten", Area: Accounts, Rule: "C5.4", Seeds: 400, Scope: "reopen", Aim: "reopened",
		Breaks: "A holder forgets a grant at the confirmation of its close, with answers still on their way that name it.",
		Edits: []Edit{
			swap(answerFile, "if len(sh.open) == 0 {\n\t\tdelete(sh.closed, id)", "if len(sh.open) == 0 || "+on+" {\n\t\tdelete(sh.closed, id)"),
		},
	},
	{
		Name: "issued-is-a-delta", Area: Accounts, Rule: "C5.1", Seeds: 100, Scope: "policy",
		Breaks: "A holder adds what an answer says was issued to what it has.",
		Edits: []Edit{
			swap(answerFile, "if k.grant == id && a.GetIssuedTokens() > k.issued {",
				"if k.grant == id && "+on+" {\nk.issued += a.GetIssuedTokens()\n} else if k.grant == id && a.GetIssuedTokens() > k.issued {"),
		},
	},
	{
		Name: "returns-before-it-stops", Area: Accounts, Rule: "C5.3", Seeds: 100,
		Breaks: "A holder says that it returns credit while the hot path can still spend it.",
		Edits: []Edit{
			swap(keyFile, "\trate     float64 // tokens a second, smoothed\n", "\tlater int64\n\trate     float64 // tokens a second, smoothed\n"),
			swap(keyFile, "taken := k.budget.take(excess - fromUndrawn)\n\tk.bound -= taken\n",
				"var taken int64\nif "+on+" {\ntaken = min(k.credit(), excess-fromUndrawn)\nk.later += taken\n} else {\ntaken = k.budget.take(excess - fromUndrawn)\nk.bound -= taken\n}\n"),
			before(keyFile, "m.sequence++\n", "k.bound -= k.budget.take(k.later)\nk.later = 0"),
		},
	},
	{
		Name: "shrinks-before-acknowledged", Area: Accounts, Rule: "C4.1", Seeds: 100, Scope: "restart",
		Breaks: "The broker counts credit as returned when it calls it back, not when the holder says so.",
		Edits: []Edit{
			after(demandFile, "c.hinted = max(1, s.moment.Mono)", "if g := e.ledger.Live(c.holder, c.epoch); g != nil {\n"+
				"_ = e.ledger.Account(s.now, g.ID, g.Spent, g.Returned+c.out-c.level, 0)\nb.touchGrant(e, g.ID)\n}"),
		},
	},
	{
		Name: "answers-applied-twice", Area: Accounts, Rule: "C5.3", Seeds: 400, Aim: "reopened", With: "handles-pin-budgets",
		Breaks: "A holder applies each copy of the answer to a request.",
		Edits: []Edit{
			swap(sendFile, "delete(m.flights, id)\n\tsh := f.shard", "if !"+on+" {\ndelete(m.flights, id)\n}\n\tsh := f.shard"),
			swap(answerFile, "if k.flight != id {", "if k.flight != id && !("+on+" && k.flight == 0) {"),
		},
	},
	{
		Name: "close-is-told-once", Area: Accounts, Rule: "C5.4", Seeds: 200, Scope: "reopen",
		Breaks: "A holder forgets a grant that it closes as soon as that is sent, with its counters.",
		Edits: []Edit{
			after(sendFile, "req.Closes = append(req.Closes, c.wire())\n\t}",
				"f.shard.closing = nil\nfor _, c := range f.closes {\ndelete(f.shard.closed, c.id)\n}"),
		},
	},
	{
		Name: "final-account-omits-closes", Area: Accounts, Rule: "C5.6", Seeds: 200, Scope: "stops", Aim: "stops",
		Breaks: "A final account does not name the grants whose close is not confirmed, so they end as unspent.",
		Edits: []Edit{
			without(finalFile, "for _, c := range sh.closing {\n\t\t\tsh.account.grants = append(sh.account.grants, c.wire())\n\t\t}"),
		},
	},
	{
		Name: "final-account-ends-named-only", Area: Accounts, Rule: "C5.6", Seeds: 200,
		Breaks: "A final account ends the grants that it names and no others.",
		Edits: []Edit{
			swap(accountFile, "if !ok && a.account.GetPartial() {", "if !ok && (a.account.GetPartial() || "+on+") {"),
		},
	},
	{
		Name: "list-closes-what-is-closing", Area: Accounts, Rule: "C5.7", Seeds: 400, Aim: "reopened", With: "grants-are-rotated",
		Breaks: "The comparison of grants closes as unspent what is being closed with its counters.",
		Edits: []Edit{
			swap(finalFile, "case m.phase != running, sh.knowsClosed(g.GetGrantId()):",
				"case m.phase != running, sh.knowsClosed(g.GetGrantId()) && !"+on+":"),
		},
	},
	{
		Name: "old-requests-get-credit", Area: Accounts, Rule: "C5.4", Seeds: 400, Scope: "returns",
		Breaks: "A request that is older than the newest one applied is granted credit again.",
		Edits: []Edit{
			swap(reportFile, "return sequence < applied || sequence == applied && !j.rerun", "return (sequence < applied || sequence == applied && !j.rerun) && !"+on),
		},
	},
	{
		Name: "hot-path-overdraws", Area: Accounts, Rule: "C5.3", Seeds: 100, Scope: "standard",
		Breaks: "The hot path admits a check as long as there is any credit, and goes below zero.",
		Edits: []Edit{
			swap(budgetFile, "if credit < cost {\n\t\t\treturn credit, false", "if credit < cost && !("+on+" && credit > 0) {\n\t\t\treturn credit, false"),
		},
	},
}
