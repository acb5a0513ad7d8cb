package mutants

// journal are breakages of what a journal proves.
var journal = []Mutant{
	{
		Name: "spends-before-it-draws", Area: Journal, Rule: "C4.2", Seeds: 200, Scope: "copies", Aim: "crashes",
		Breaks: "Credit is spent while the journal write that covers it is on its way.",
		Edits: []Edit{
			after(drawFile, "m.journal.queue = append(m.journal.queue, draw{k: k, grant: k.grant, tokens: k.drawing})", "k.drawn = k.drawing\nm.admit(k, lack)"),
		},
	},
	{
		Name: "failed-write-counts", Area: Journal, Rule: "C4.2", Seeds: 200, Aim: "failing-journals",
		Breaks: "A journal write that failed is taken for durable.",
		Edits: []Edit{
			swap(drawFile, "if err != nil {\n\t\tm.Stop()", "if err != nil && !"+on+" {\n\t\tm.Stop()"),
		},
	},
	{
		Name: "forgets-at-close", Area: Journal, Rule: "C5.4", Seeds: 400, Aim: "crashes-after-closes", With: "grants-are-rotated",
		Breaks: "The journal forgets what was drawn of a grant when it is closed, not when the close is confirmed.",
		Edits: []Edit{
			after(drawFile, "k.shard.close(m.finalCounters(k))", "m.journal.forget = append(m.journal.forget, k.grant)"),
			swap(drawFile, "len(j.queue) == 0 && len(j.forget) < forgetBatch", "len(j.queue) == 0 && len(j.forget) < map[bool]int{true: 1, false: forgetBatch}["+on+"]"),
		},
	},
	{
		Name: "drawn-counts-as-unspent", Area: Journal, Rule: "C4.2", Seeds: 200, Scope: "journal", Aim: "crashes",
		Breaks: "A journal's account gives back what was drawn and not reported as spent.",
		Edits: []Edit{
			before(ledgerFile, "g.Spent = used\n", "used = before"),
		},
	},
	{
		Name: "start-overwrites-figures", Area: Journal, Rule: "C4.2", Seeds: 400, Aim: "crashes",
		Breaks: "A start overwrites what earlier epochs have drawn, before their account is confirmed.",
		Stands: "regional/journal, Begin",
		Edits: []Edit{
			before(worldDisk, "d.last = max(d.last, epoch)", "for i := range d.epochs {\nd.epochs[i].drawn = nil\n}"),
		},
	},
	{
		Name: "fresh-journal-proves-all", Area: Journal, Rule: "C4.2", Seeds: 200, Aim: "fresh-disks",
		Breaks: "A journal accounts for an epoch whose start it never recorded.",
		Stands: "regional, openEpoch",
		Edits: []Edit{
			after(worldProcess, "p.disk.begin(p.epoch)", "if p.epoch > 1 && len(p.past) == 0 {\np.past = []holder.PastEpoch{{Epoch: p.epoch - 1, Counter: 1 << 60}}\n}"),
		},
	},
	{
		Name: "no-lock", Area: Journal, Rule: "C4.2", Seeds: 200, Aim: "rivals",
		Breaks: "A second process opens the journal that another one has open.",
		Stands: "regional/journal, Open",
		Edits: []Edit{
			without(worldSite, "s.disk = s.w.newDisk()\n"),
			swap(worldSite, "if s.mode != holder.JournalOff && s.disk.lock != nil || s.current", "if s.mode != holder.JournalOff && s.disk.lock != nil && !"+on+" || s.current"),
			swap(worldSite, "s.disk == s.current.disk {", "s.disk == s.current.disk && !"+on+" {"),
		},
	},
	{
		Name: "counter-unchecked", Area: Journal, Rule: "C4.2", Seeds: 400, Scope: "copies", Aim: "restored-disks",
		Breaks: "The write counter of a journal is not compared with what it told before.",
		Edits: []Edit{
			swap(accountFile, "told := f.Counter(epoch); a.account.GetJournalCounter() < told {", "told := f.Counter(epoch); a.account.GetJournalCounter() < told && !"+on+" {"),
		},
	},
	{
		Name: "counter-not-told", Area: Journal, Rule: "C4.2", Seeds: 400, Scope: "copies", Aim: "restored-disks",
		Breaks: "Under journal: confirm, a block is spent before its counter is acknowledged.",
		Edits: []Edit{
			swap(drawFile, "if m.cfg.Journal == JournalConfirm {", "if m.cfg.Journal == JournalConfirm && !"+on+" {"),
		},
	},
	{
		Name: "old-disk-under-block", Area: Journal, Rule: "C4.2", Seeds: 400, Aim: "block-on-restored-disks",
		Breaks: "A journal goes back to an older copy under journal: block, which cannot stand that.",
		Stands: "operator",
		Edits: []Edit{
			swap(worldSite, "case s.mode == holder.JournalConfirm &&", "case (s.mode == holder.JournalConfirm || "+on+") &&"),
		},
	},
	{
		Name: "finishes-unconfirmed", Area: Journal, Rule: "C4.2", Seeds: 200, Aim: "crashes",
		Breaks: "The journal drops an earlier epoch when its account is sent, not when every shard has confirmed it.",
		Edits: []Edit{
			swap(finalFile, "func(a *account) bool { return !a.done })", "func(a *account) bool { return !a.done && !("+on+" && a.flight != 0) })"),
		},
	},
	{
		Name: "start-overwrites-epochs", Area: Journal, Rule: "C4.2", Seeds: 200, Aim: "crashes",
		Breaks: "A start overwrites the earlier epochs, before their account is confirmed.",
		Stands: "regional/journal, Begin",
		Edits: []Edit{
			before(worldDisk, "d.epochs = append(d.epochs, diskEpoch{epoch: epoch, counter: 1})", "d.epochs = nil"),
		},
	},
}
