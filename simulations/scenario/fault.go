package scenario

import (
	"slices"

	"github.com/tokenlease/tokenlease/proto/policyfile"
	"github.com/tokenlease/tokenlease/proto/strictyaml"
)

// What a crash leaves of a limiter's journal.
const (
	JournalKept  = "kept"  // all of it
	JournalFresh = "fresh" // nothing: another disk
	JournalOlder = "older" // a copy from some time before
)

// Kinds are all kinds of faults.
func Kinds() []Kind {
	return []Kind{Cut, Mess, Pause, Freeze, Crash, Stop, Zombie, Expire, StoreIs, Restore, Policy, Attest, Wall}
}

// faultField is a field that some kinds of faults have, and why others do not.
type faultField struct {
	name  string
	kinds []Kind
	why   string
}

// faultFields are all such fields.
func faultFields() []faultField {
	return []faultField{
		{"for", []Kind{Cut, Mess, Pause, Freeze, Expire, StoreIs}, "does not go with what is done in a moment: remove it"},
		{"one-way", []Kind{Cut}, "goes with cut alone: remove it"},
		{"loss", []Kind{Mess}, "goes with mess alone: remove it"},
		{"duplicate", []Kind{Mess}, "goes with mess alone: remove it"},
		{"late", []Kind{Mess}, "goes with mess alone: remove it"},
		{"delay", []Kind{Mess}, "goes with mess alone: remove it"},
		{"back", []Kind{Crash, Stop}, "goes with crash and stop alone: remove it"},
		{"journal", []Kind{Crash}, "goes with crash alone: remove it"},
		{"step", []Kind{Wall}, "goes with wall alone: remove it"},
		{"declared", []Kind{Restore}, "goes with restore alone: remove it"},
		{"attested", []Kind{Restore}, "goes with restore alone: remove it"},
	}
}

// fault reads one thing that goes wrong.
func (r *reader) fault(node *strictyaml.Node, path string) {
	kinds, others := make([]string, 0, len(Kinds())), []string{"at"}
	for _, k := range Kinds() {
		kinds = append(kinds, string(k))
	}
	for _, f := range faultFields() {
		others = append(others, f.name)
	}
	f := Fault{Line: node.Line}
	kind, ok := r.only(node, path, "fault", kinds, others)
	f.Kind = Kind(kind)
	if ok {
		r.faultOf(&f, node, path)
	}
	r.sc.Faults = append(r.sc.Faults, f)
}

// faultOf reads a fault whose kind is known.
func (r *reader) faultOf(f *Fault, node *strictyaml.Node, path string) {
	kind := string(f.Kind)
	before := r.Troubles()
	fields := []strictyaml.Field{
		required("at", func(v *strictyaml.Node, at string) { f.At = r.Duration(v, at, 0, MaxDuration) }),
		required(kind, func(v *strictyaml.Node, at string) { r.subject(f, v, at) }),
	}
	for _, x := range faultFields() {
		own := strictyaml.Field{Name: x.name, Read: func(v *strictyaml.Node, at string) { r.detail(f, x.name, v, at) }}
		if !slices.Contains(x.kinds, f.Kind) {
			own.Refused = x.why
		}
		if x.name == "for" && (f.Kind == Crash || f.Kind == Stop) {
			own.Refused = "does not go with " + kind + ": want back, after which it starts again"
		}
		own.Required = x.name == "step" && own.Refused == ""
		fields = append(fields, own)
	}
	r.Mapping(node, path, fields)
	if r.Troubles() == before {
		r.checkSpan(*f, node, path)
		r.checkFault(f, node, path)
	}
}

// subject reads the value of the field that names the kind.
func (r *reader) subject(f *Fault, v *strictyaml.Node, at string) {
	switch f.Kind {
	case Cut, Mess:
		f.Ends = r.ends(v, at)
	case Pause, Freeze, Crash, Wall:
		f.Target = r.target(v, at, anyProcess)
	case Stop, Zombie, Attest:
		f.Target = r.target(v, at, limiters)
	case Expire:
		f.Target = r.target(v, at, brokers)
	case StoreIs:
		f.Trouble = Trouble(r.Choice(v, at, string(Outage), string(NoSpace), string(Uncertain), string(Slow)))
	case Restore:
		f.Age = r.length(v, at)
	case Policy:
		before := r.Troubles()
		f.Policy = policyOf(policyfile.ReadPolicy(r.Parser, v, at), 0)
		if r.Troubles() == before {
			r.ruled(f.Policy.Operation, v.Line, at+".operation")
		}
	}
}

// detail reads one of the other fields.
func (r *reader) detail(f *Fault, name string, v *strictyaml.Node, at string) {
	switch name {
	case "for":
		f.For = r.length(v, at)
	case "one-way":
		f.OneWay = r.Boolean(v, at)
	case "loss":
		f.Loss = r.Percent(v, at, 1, 100)
	case "duplicate":
		f.Duplicate = r.Percent(v, at, 1, 100)
	case "late":
		f.Late = r.Percent(v, at, 1, 100)
	case "delay":
		f.Delay = r.length(v, at)
	case "back":
		f.Back = r.length(v, at)
	case "journal":
		f.Journal = r.Choice(v, at, JournalKept, JournalFresh, JournalOlder)
	case "step":
		f.Step = r.Offset(v, at, maxClock)
	case "declared":
		f.Declared = r.Boolean(v, at)
	case "attested":
		f.Attested = r.length(v, at)
	}
}

// checkSpan checks that a fault is within the scenario.
func (r *reader) checkSpan(f Fault, node *strictyaml.Node, path string) {
	switch end := r.sc.Duration; {
	case end == 0:
	case f.At >= end:
		r.fieldf(node, path, "at", "%s is not before the end, at %s", long(f.At), long(end))
	case f.At+f.For > end:
		r.fieldf(node, path, "for", "lasts until %s, after the end, at %s: leave it out for a fault that lasts to the end", long(f.At+f.For), long(end))
	case f.At+f.Attested > end:
		r.fieldf(node, path, "attested", "would be at %s, after the end, at %s: leave it out for a restore that is not attested", long(f.At+f.Attested), long(end))
	case f.At+f.Back > end:
		r.fieldf(node, path, "back", "would be at %s, after the end, at %s: leave it out for what does not start again", long(f.At+f.Back), long(end))
	}
}

// checkFault checks fields against each other, of a fault that could be read.
func (r *reader) checkFault(f *Fault, node *strictyaml.Node, path string) {
	switch f.Kind {
	case Mess:
		r.checkMess(*f, node, path)
	case Crash:
		r.checkCrash(f, node, path)
	case Restore:
		if f.Age > f.At {
			r.fieldf(node, path, "restore", "a copy of %s before is older than the store: want at most %s", long(f.Age), long(f.At))
		}
		if f.Attested > 0 && !f.Declared {
			r.fieldf(node, path, "attested", "only a declared restore can be attested: add declared: true")
		}
	case Wall:
		if f.Step == 0 {
			r.fieldf(node, path, "step", "0s is no step: want one such as 60s or -60s")
		}
	}
}

func (r *reader) checkMess(f Fault, node *strictyaml.Node, path string) {
	switch {
	case f.Loss+f.Duplicate+f.Late == 0:
		r.Faultf(f.Line, path, "does nothing to messages: want loss, duplicate or late, in percent")
	case f.Late > 0 && f.Delay == 0:
		r.fieldf(node, path, "delay", "is missing: late messages are delayed by up to this")
	case f.Late == 0 && f.Delay > 0:
		r.fieldf(node, path, "late", "is missing: it says how many messages are delayed, in percent")
	case f.Loss+f.Late > 100:
		r.Faultf(f.Line, path, "loss and late are %d%%: want at most 100%% together", f.Loss+f.Late)
	}
}

// checkCrash checks what becomes of a journal.
func (r *reader) checkCrash(f *Fault, node *strictyaml.Node, path string) {
	p, _ := r.sc.Party(f.Target)
	wrong := func(text string) { r.fieldf(node, path, "journal", "%s", text) }
	switch {
	case f.Journal == "":
	case len(p.Limiters) == 0:
		wrong("brokers have no journal: remove it")
	case f.Back == 0:
		wrong("matters to a process that starts again: want back as well")
	case r.sc.Regions[p.Limiters[0].Region].Journal == JournalOff:
		wrong("there is none in a region with journal: off: remove it")
	case f.Journal == JournalOlder && r.sc.Regions[p.Limiters[0].Region].Journal != JournalConfirm:
		wrong("an older copy is beyond proof under journal: block (contract C4): want journal: confirm in the region")
	}
	if f.Journal == "" && len(p.Limiters) > 0 {
		f.Journal = JournalKept
	}
}
