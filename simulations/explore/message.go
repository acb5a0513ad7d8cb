package explore

import (
	"fmt"
	"strings"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// message is a request or an answer on the network. It is never changed; its
// delivery does not remove it.
type message struct {
	slot uint8  // of the process that sent the request
	id   uint64 // of the request
	req  *pb.SyncRequest
	resp *pb.SyncResponse // nil: it is a request

	digest digest
}

func (m *message) fingerprint() digest { return m.digest }

// messageOf is the one message with this content.
func (x *explorer) messageOf(m message) *message {
	m.digest = digestOf(&m)
	return x.messages.one(m.digest, &m)
}

// text says what the message says, in short.
func (m *message) text() string {
	if m.resp != nil {
		return m.answerText()
	}
	var parts []string
	for _, r := range m.req.GetBudgets() {
		parts = append(parts, fmt.Sprintf("report %d (grant %q spent %d returned %d, wants %d needs %d)",
			r.GetSequence(), r.GetGrantId(), r.GetSpentTokens(), r.GetReturnedTokens(), r.GetWantTokens(), r.GetNeedTokens()))
	}
	for _, c := range m.req.GetCloses() {
		parts = append(parts, "close "+accountText(c))
	}
	for _, a := range m.req.GetAccounts() {
		var grants []string
		for _, g := range a.GetGrants() {
			grants = append(grants, accountText(g))
		}
		source := strings.ToLower(strings.TrimPrefix(a.GetSource().String(), "ACCOUNT_SOURCE_"))
		parts = append(parts, fmt.Sprintf("final account of epoch %d by its %s, counter %d: [%s]",
			a.GetEpoch(), source, a.GetJournalCounter(), strings.Join(grants, ", ")))
	}
	if m.req.GetListGrants() {
		parts = append(parts, "list")
	}
	return fmt.Sprintf("request %d of %s {%s; head %d, counter %d}", m.id, slotName(m.slot), strings.Join(parts, "; "),
		m.req.GetHighestHead(), m.req.GetJournalCounter())
}

func accountText(g *pb.GrantAccount) string {
	return fmt.Sprintf("%s spent %d returned %d", g.GetGrantId(), g.GetSpentTokens(), g.GetReturnedTokens())
}

func (m *message) answerText() string {
	var parts []string
	if m.resp.GetFenced() {
		parts = append(parts, "fenced")
	}
	for _, a := range m.resp.GetBudgets() {
		text := fmt.Sprintf("grant %q issued %d level %d", a.GetGrantId(), a.GetIssuedTokens(), a.GetLevelTokens())
		if a.GetGone() {
			text += " gone"
		}
		if a.GetShortage() != pb.Shortage_SHORTAGE_UNSPECIFIED {
			text += " " + strings.ToLower(strings.TrimPrefix(a.GetShortage().String(), "SHORTAGE_"))
		}
		parts = append(parts, fmt.Sprintf("report %d: %s", a.GetSequence(), text))
	}
	for _, c := range m.resp.GetCloses() {
		parts = append(parts, c.GetGrantId()+" closed")
	}
	for _, a := range m.resp.GetAccounts() {
		parts = append(parts, fmt.Sprintf("account of epoch %d applied: %v", a.GetEpoch(), a.GetApplied()))
	}
	for _, g := range m.resp.GetGrants() {
		parts = append(parts, fmt.Sprintf("listed %s of epoch %d", g.GetGrantId(), g.GetEpoch()))
	}
	return fmt.Sprintf("answer to request %d of %s {%s; head %d}", m.id, slotName(m.slot), strings.Join(parts, "; "), m.resp.GetHead())
}

// evidence says that the answer accuses its receiver, which an honest history
// never does.
func evidence(resp *pb.SyncResponse) bool {
	above := pb.Evidence_EVIDENCE_ABOVE_ISSUED
	for _, a := range resp.GetBudgets() {
		if a.GetEvidence() == above || a.GetEvidence() == pb.Evidence_EVIDENCE_RECORD_UNUSABLE {
			return true
		}
	}
	for _, a := range resp.GetCloses() {
		if a.GetEvidence() == above || a.GetEvidence() == pb.Evidence_EVIDENCE_RECORD_UNUSABLE {
			return true
		}
	}
	for _, a := range resp.GetAccounts() {
		if a.GetEvidence() == above || a.GetEvidence() == pb.Evidence_EVIDENCE_RECORD_UNUSABLE {
			return true
		}
	}
	return false
}
