package storetest

import (
	"time"

	"github.com/tokenlease/tokenlease/broker/store"
)

// session starts a session that is closed at the end of the subtest.
func (s *suite) session() store.Session {
	s.Helper()
	session, err := s.store.NewSession(s.ctx, 30*time.Second)
	if err != nil {
		s.Fatalf("starting a session: %v", err)
	}
	s.Cleanup(func() { _ = session.Close(s.ctx) })
	return session
}

// under binds a put to a session.
func under(session store.Session, op store.Op) store.Op {
	op.Session = session.ID()
	return op
}

func testSessionClose(s *suite) {
	one, two := s.session(), s.session()
	if one.ID() == 0 || one.ID() == two.ID() {
		s.Fatalf("session IDs %d and %d", one.ID(), two.ID())
	}
	s.apply(nil, under(one, s.put("a", "1")), under(two, s.put("b", "2")), s.put("c", "plain"), under(one, s.put("d", "1")))
	select {
	case <-one.Done():
		s.Fatal("a fresh session is done")
	default:
	}
	for range 2 { // closing twice is no error
		if err := one.Close(s.ctx); err != nil {
			s.Fatalf("closing the session: %v", err)
		}
	}
	select {
	case <-one.Done():
	case <-s.ctx.Done():
		s.Fatal("a closed session is not done")
	}
	if got := s.names(s.rangeOf(s.everything()).KVs); got != "b c" {
		s.Fatalf("keys %q are left, want b c", got)
	}
	select {
	case <-two.Done():
		s.Fatal("closing one session ended another")
	default:
	}
}

func testSessionTakeover(s *suite) {
	session := s.session()
	created := s.apply(nil, under(session, s.put("k", "bound")))
	modified := s.apply(nil, s.put("k", "plain"))
	if err := session.Close(s.ctx); err != nil {
		s.Fatalf("closing the session: %v", err)
	}
	s.wantKV("k", "plain", created, modified)
}

func testPutUnderEndedSession(s *suite) {
	session := s.session()
	if err := session.Close(s.ctx); err != nil {
		s.Fatalf("closing the session: %v", err)
	}
	txn := store.Txn{Then: []store.Op{s.put("plain", "1"), under(session, s.put("bound", "1"))}}
	if res, err := s.store.Txn(s.ctx, txn); err == nil {
		s.Fatalf("a put under an ended session = %+v, want an error", res)
	}
	s.wantMissing("plain")
	s.wantMissing("bound")
}
