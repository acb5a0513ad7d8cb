package broker

import (
	"strconv"

	"github.com/tokenlease/tokenlease/broker/record"
	"github.com/tokenlease/tokenlease/broker/store"
	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
)

// auditPage reads a page of the audit, in the order that was asked for.
func (v *view) auditPage(m *pb.ListAuditRequest, take func(store.KeyValue) (bool, error)) (next string, err error) {
	from, end := record.All(v.b.layout.Audits())
	if m.GetSinceUnixMs() > 0 {
		from = v.b.layout.AuditFrom(m.GetSinceUnixMs())
	}
	if m.GetUntilUnixMs() > 0 {
		end = v.b.layout.AuditFrom(m.GetUntilUnixMs())
	}
	l := listing{
		filters: []string{
			"audit", strconv.FormatInt(m.GetSinceUnixMs(), 10), strconv.FormatInt(m.GetUntilUnixMs(), 10),
			m.GetAction(), m.GetBy(), strconv.FormatBool(m.GetOldestFirst()),
		},
		token: m.GetPageToken(), size: m.GetPageSize(), spans: []span{{from, end}}, take: take,
	}
	if m.GetOldestFirst() {
		if m.GetAction() != "" || m.GetBy() != "" {
			l.pass = func(string) (bool, string) { return true, "" } // few may pass: read many at a time
		}
		return v.list(l)
	}
	return v.listBackwards(l)
}

// listBackwards is list in descending order. A store reads upwards alone, so the
// keys are read first, without what they hold.
func (v *view) listBackwards(l listing) (next string, err error) {
	before, err := l.after()
	if err != nil {
		return "", err
	}
	s := l.spans[0]
	if before != "" {
		s.end = min(s.end, before)
	}
	keys, err := v.keys(s)
	if err != nil {
		return "", err
	}
	size := l.size
	if size == 0 {
		size = defaultPage
	}
	left, room := min(size, maxPage), maxRead
	for len(keys) > 0 {
		if left == 0 || room <= 0 {
			return l.next(keys[len(keys)-1] + "\x00"), nil
		}
		at := max(0, len(keys)-min(readPage, 2*int(left)))
		res, err := v.read(store.RangeRequest{Key: keys[at], End: keys[len(keys)-1] + "\x00"})
		if err != nil {
			return "", err
		}
		for i := len(res.KVs) - 1; i >= 0 && left > 0; i-- {
			keys = keys[:len(keys)-1]
			room--
			ok, err := l.take(res.KVs[i])
			if err != nil {
				return "", err
			}
			if ok {
				left--
			}
		}
	}
	return "", nil
}

// keys are the keys of a span, without what they hold.
func (v *view) keys(s span) ([]string, error) {
	var keys []string
	for {
		res, err := v.read(store.RangeRequest{Key: s.from, End: s.end, Limit: readKeys, KeysOnly: true})
		if err != nil {
			return nil, err
		}
		for _, kv := range res.KVs {
			keys = append(keys, kv.Key)
			s.from = kv.Key + "\x00"
		}
		if !res.More {
			return keys, nil
		}
	}
}
