package etcdstore

import (
	"context"
	"testing"

	"github.com/tokenlease/tokenlease/broker/store"
)

// The member tells how it is, in the process and over the network; one that cannot be
// reached is told as such.
func TestHealth(t *testing.T) {
	e := shared
	client, err := Open(t.Context(), Config{Endpoints: e.Endpoints()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for name, st := range map[string]*Store{"embedded": e.Store(), e.Endpoints()[0]: client} {
		h := st.Health(t.Context())
		if len(h.Members) != 1 || len(h.Alarms) != 0 {
			t.Fatalf("health %+v", h)
		}
		if m := h.Members[0]; m.Name != name || !m.Reached || !m.Leader || m.Version == "" || m.SizeBytes == 0 || m.QuotaBytes == 0 || m.Problem != "" {
			t.Errorf("member %+v", m)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h := client.Health(ctx); len(h.Members) != 1 || h.Members[0].Reached || h.Members[0].Problem == "" {
		t.Errorf("unreachable: %+v", h)
	}
	_ = client.Close()
	if h := client.Health(t.Context()); len(h.Members) != 1 || h.Members[0].Problem != store.ErrClosed.Error() {
		t.Errorf("closed: %+v", h)
	}
}
