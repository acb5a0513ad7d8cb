package mutants

// commits are breakages of the chain of commits, and of when answers leave.
var commits = []Mutant{
	{
		Name: "no-guard", Area: Commits, Rule: "C3.1", Seeds: 100, Scope: "fail-over",
		Breaks: "Commits compare neither the ownership nor the head.",
		Edits: []Edit{
			before(loadFile, "return append([]store.Compare{\n\t\t{Key: s.cfg.Layout.Owner", `return []store.Compare{{Key: "/never", Target: store.CreateRevision}}`),
		},
	},
	{
		Name: "no-head-compare", Area: Commits, Rule: "C3.1", Seeds: 100, Scope: "commits",
		Breaks: "Commits compare the ownership and not the head, so one that is repeated late is applied.",
		Edits: []Edit{
			swap(batchFile, "txn := &store.Txn{If: s.guard()}", "txn := &store.Txn{If: s.guard()}\nif "+on+" {\ntxn.If = txn.If[:1]\n}"),
		},
	},
	{
		Name: "replies-before-commit", Area: Commits, Rule: "C3.2", Seeds: 100, Scope: "doubts",
		Breaks: "Answers leave when the commit is sent.",
		Edits: []Edit{
			before(shardFile, "s.flight = b\n", "for _, j := range b.done {\nj.finish(s)\n}\nb.done = nil"),
		},
	},
	{
		Name: "unknown-is-applied", Area: Commits, Rule: "C6", Seeds: 100, Scope: "commits",
		Breaks: "A commit of unknown outcome is taken for applied, and answered.",
		Edits: []Edit{
			before(shardFile, "switch {\n\tcase err != nil:\n\t\ts.stats.Uncertain++",
				"if err != nil && len(b.reads) == 0 && b.setBack == nil {\ns.committed(b, res)\nreturn\n}"),
		},
	},
	{
		Name: "refused-is-applied", Area: Commits, Rule: "C3.1", Seeds: 200, Scope: "commits", Aim: "fail-overs",
		Breaks: "A commit that the store refused is taken for applied, and answered.",
		Edits: []Edit{
			swap(shardFile, "case !res.Succeeded:\n\t\ts.stats.Refused++", "case !res.Succeeded && len(b.reads) == 0 && b.setBack == nil && "+on+":\n\t\tres.Revision = s.headRevision\n\t\ts.committed(b, res)\n\tcase !res.Succeeded:\n\t\ts.stats.Refused++"),
		},
	},
	{
		Name: "memory-outlives-doubt", Area: Commits, Rule: "C6", Seeds: 200, Scope: "commits",
		Breaks: "After a commit of unknown outcome only the head is read again; the ledgers in memory stay.",
		Edits: []Edit{
			swap(loadFile, "\ts.forget()\n", "if !"+on+" {\ns.forget()\n}\n"),
			swap(shardFile, "func (s *Shard) doubt(b *batch, err error) {\n\ts.forget()", `func (s *Shard) doubt(b *batch, err error) {
				ledgers, order := s.ledgers, s.order
				s.forget()
				if `+on+` {
					b.clean()
					s.ledgers, s.order = ledgers, order
					for _, e := range order {
						e.reading = false
					}
				}`),
		},
	},
	{
		Name: "answers-without-a-guard", Area: Commits, Rule: "C3.2", Seeds: 800, Aim: "stale-owners",
		Breaks: "An answer that changes nothing leaves from memory, without a transaction (and without the heads that would tell).",
		Edits: []Edit{
			before(shardFile, "return b.txn(s)", `if !b.writes() && len(b.reads) == 0 && b.setBack == nil {
				s.flight = nil
				for _, j := range b.done {
					j.finish(s)
				}
				b.deliverHints()
				return nil
			}`),
			swap(sendFile, "HighestHead: sh.head,", "HighestHead: sh.head * map[bool]int64{false: 1}["+on+"],"),
		},
	},
	{
		Name: "stale-load", Area: Commits, Rule: "C3.5", Seeds: 200, Aim: "fail-overs",
		Breaks: "A new owner takes the ledgers as it read them when it began to campaign.",
		Stands: "broker, runner",
		Edits: []Edit{
			swap(worldBroker, "// by shard; nil where it does not own\n", "\n\told map[uint32][]store.KeyValue\n"),
			before(worldBroker, "session := b.session\n", `if b.since[id] == w.now {
				key, end := record.All(w.layout.Shards())
				res, _ := w.store.Apply(store.Txn{Then: []store.Op{{Kind: store.OpRange, Key: key, End: end}}})
				if b.old == nil {
					b.old = map[uint32][]store.KeyValue{}
				}
				b.old[id] = res.Results[0].KVs
			}`),
			swap(worldBroker, "loadedYet bool\n", "loadedYet bool\n\tfresh map[string]bool\n"),
			before(worldCommit, `o.b.transact("apply", int64(o.shard), txn, func(res store.TxnResult, err error) {`, `
				o.b.transact("apply", int64(o.shard), txn, func(res store.TxnResult, err error) {
					for i, op := range txn.Then {
						if err != nil || !res.Succeeded || op.Kind != store.OpGet || o.fresh[op.Key] || !strings.HasPrefix(op.Key, w.layout.Shards()) || op.Key == w.layout.Head(o.shard) {
							continue
						}
						if o.fresh == nil {
							o.fresh = map[string]bool{}
						}
						o.fresh[op.Key] = true
						res.Results[i].KVs = nil
						for _, kv := range o.b.old[o.shard] {
							if kv.Key == op.Key {
								res.Results[i].KVs = []store.KeyValue{kv}
							}
						}
					}
					o.result(res, err)
				})
				return`),
		},
	},
}
