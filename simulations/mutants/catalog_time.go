package mutants

// timeAndPolicy are breakages of refill, of ledger time, and of what a change of
// policy does.
var timeAndPolicy = []Mutant{
	{
		Name: "refill-ignores-reserved", Area: Time, Rule: "C1", Seeds: 100, Scope: "idle",
		Breaks: "Refill fills the capacity as if nothing were out.",
		Edits: []Edit{
			swap(ledgerFile, "return max(0, l.Rule.Capacity-l.Reserved()-l.Available)", "if "+on+" {\nreturn max(0, l.Rule.Capacity-l.Available)\n}\nreturn max(0, l.Rule.Capacity-l.Reserved()-l.Available)"),
		},
	},
	{
		Name: "refill-is-doubled", Area: Time, Rule: "C1", Seeds: 200, Scope: "refill",
		Breaks: "The arithmetic of refill, which the checks of the ledger use too, earns twice the rate.",
		Edits: []Edit{
			before(tokensFile, "hi, lo := bits.Mul64(uint64(elapsed), uint64(r.Tokens))", "elapsed *= 2"),
		},
	},
	{
		Name: "account-before-the-advance", Area: Time, Rule: "C1", Seeds: 200, Scope: "small",
		Breaks: "An account makes room first, and then the time before it earns credit for that room.",
		Edits: []Edit{
			swap(ledgerFile, "l.Advance(now)\n\tbefore := *g", "if !"+on+" {\nl.Advance(now)\n}\n\tbefore := *g"),
			swap(ledgerFile, "\tl.clamp()\n\treturn nil\n}\n\n// Close ends", "\tl.clamp()\nif "+on+" {\nl.Advance(now)\n}\n\treturn nil\n}\n\n// Close ends"),
		},
	},
	{
		Name: "attestation-before-the-advance", Area: Time, Rule: "C1", Seeds: 400, Aim: "dead-with-all-spent",
		Breaks: "An attestation makes room first, and then the time before it earns credit for that room.",
		Edits: []Edit{
			swap(ledgerFile, "l.Advance(now)\n\tcounted =", "if !"+on+" {\nl.Advance(now)\n}\n\tcounted ="),
			swap(ledgerFile, "return counted, nil", "if "+on+" {\nl.Advance(now)\n}\nreturn counted, nil"),
		},
	},
	{
		Name: "time-without-room-is-banked", Area: Time, Rule: "C1", Seeds: 200, Scope: "small",
		Breaks: "Time in which there was no room earns credit later, when there is.",
		Edits: []Edit{
			before(ledgerFile, "elapsed := now.Sub(l.Updated)", "if l.room() == 0 {\nreturn\n}"),
		},
	},
	{
		Name: "fraction-without-room-is-banked", Area: Time, Rule: "C1", Seeds: 100,
		Breaks: "A fraction of a token is kept when the budget is full.",
		Edits: []Edit{
			swap(ledgerFile, "tokens, remainder = room, 0", "tokens = room\nif !"+on+" {\nremainder = 0\n}"),
		},
	},
	{
		Name: "policy-before-the-advance", Area: Time, Rule: "C1", Seeds: 200,
		Breaks: "A new policy counts for the time before it, too.",
		Edits: []Edit{
			swap(ledgerFile, "l.Advance(now)\n\tswitch {\n\tcase rule.Kind", "if !"+on+" {\nl.Advance(now)\n}\n\tswitch {\n\tcase rule.Kind"),
			swap(ledgerFile, "l.recut(lacked)\n\treturn nil", "l.recut(lacked)\nif "+on+" {\nl.Advance(now)\n}\n\treturn nil"),
		},
	},
	{
		Name: "lowering-forgets-what-is-out", Area: Time, Rule: "C8", Seeds: 100, Scope: "policy",
		Breaks: "A lower capacity limits what is available, whatever is out.",
		Edits: []Edit{
			swap(ledgerFile, "l.Available = max(0, min(l.Available, l.Rule.Capacity-l.Reserved()))",
				"if "+on+" {\nl.Available = min(l.Available, l.Rule.Capacity)\n} else {\nl.Available = max(0, min(l.Available, l.Rule.Capacity-l.Reserved()))\n}"),
		},
	},
	{
		Name: "return-is-not-clamped", Area: Time, Rule: "C1", Seeds: 200, Scope: "policy",
		Breaks: "A return is credited whole, room or not.",
		Edits: []Edit{
			swap(ledgerFile, "l.Available += g.Returned - before.Returned\n", "if "+on+" {\nl.Available += g.Returned - before.Returned\nreturn nil\n}\nl.Available += g.Returned - before.Returned\n"),
		},
	},
	{
		Name: "raising-mints", Area: Time, Rule: "C8", Seeds: 100, Scope: "policy",
		Breaks: "A higher capacity is filled at once.",
		Edits: []Edit{
			after(ledgerFile, "l.Rule = rule\n", "l.Available = max(0, rule.Capacity-l.Reserved())"),
		},
	},
	{
		Name: "drops-what-is-not-full", Area: Time, Rule: "C8", Seeds: 100, Scope: "idle",
		Breaks: "An idle ledger with nothing out is dropped, full or not.",
		Edits: []Edit{
			swap(sweepFile, "if !e.ledger.Full() || !s.fullWithout(e.key, pol, ruled) {",
				"if (!e.ledger.Full() || !s.fullWithout(e.key, pol, ruled)) && (!"+on+" || len(e.ledger.Grants) > 0) {"),
		},
	},
	{
		Name: "cut-is-forgotten", Area: Time, Rule: "C8", Seeds: 400, Aim: "policies",
		Breaks: "What a lowered capacity has cut off is forgotten, and comes back when it is raised.",
		Edits: []Edit{
			swap(cutFile, "l.Cut = max(0, lacked-l.lack())", "l.Cut = max(0, lacked-l.lack())\nif "+on+" {\nl.Cut = 0\n}"),
		},
	},
	{
		Name: "doubt-counts-time-twice", Area: Time, Rule: "C2", Seeds: 100, Scope: "commits",
		Breaks: "An owner that reads again counts the time since its first read on top of the stored ledger time.",
		Edits: []Edit{
			before(loadFile, "if !s.started {", "s.base = stored"),
		},
	},
	{
		Name: "wall-clock-at-fail-over", Area: Time, Rule: "C2", Seeds: 100,
		Breaks: "A new owner adds the time since the last commit by wall clocks.",
		Edits: []Edit{
			swap(loadFile, "return lease.Time(head.ClockNs), nil", "if gap := s.moment.UnixMs - head.CommittedUnixMs; gap > 0 && "+on+" {\nreturn lease.Time(head.ClockNs + gap*1_000_000), nil\n}\nreturn lease.Time(head.ClockNs), nil"),
		},
	},
	{
		Name: "clock-from-the-campaign", Area: Time, Rule: "C2", Seeds: 200, Aim: "fail-overs",
		Breaks: "A new owner starts its clock when it begins to campaign, so the old owner's last ticks count twice.",
		Stands: "broker, runner",
		Edits: []Edit{
			swap(worldBroker, "o.sh.Result(o.moment(), res, err)", "m := o.moment()\nif "+on+" && !o.loadedYet {\nm.Mono -= o.b.w.now - o.campaign\n}\no.sh.Result(m, res, err)"),
		},
	},
	{
		Name: "drops-under-an-old-policy", Area: Time, Rule: "C8", Seeds: 1000, Aim: "forgotten-policies",
		Breaks: "A ledger that is full under an old version is dropped, and comes back full under the new one.",
		Edits: []Edit{
			swap(sweepFile, "ruled && pol.Rule.Version > e.ledger.Rule.Version {", "ruled && pol.Rule.Version > e.ledger.Rule.Version && !"+on+" {"),
		},
	},
	{
		Name: "cut-is-made-up-unfilled", Area: Time, Rule: "C8", Seeds: 400, Aim: "policies",
		Breaks: "What a lowered capacity has cut off is made up for by time in which the budget was not full.",
		Edits: []Edit{
			swap(cutFile, "if l.Cut == 0 || l.lack() != 0 {", "if l.Cut == 0 || l.lack() != 0 && !"+on+" {"),
		},
	},
}
