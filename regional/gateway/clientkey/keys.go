package clientkey

import (
	"container/list"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Keys gives clients their accounts. Its methods may be called concurrently.
type Keys struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	now     time.Duration // the latest that the clock has said: it never steps back
	clients map[netip.Prefix]*list.Element
	used    *list.List // of entry, the latest used first
}

// entry is a client with an account of its own.
type entry struct {
	client  netip.Prefix
	account string
	lastUse time.Duration
}

// New is a table without clients. It fails if Validate does.
func New(cfg Config) (*Keys, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	origin := time.Now()
	k := &Keys{
		cfg:     cfg.withDefaults(func() time.Duration { return time.Since(origin) }),
		clients: map[netip.Prefix]*list.Element{}, used: list.New(),
	}
	k.metrics = newMetrics(k.cfg.Registerer, k.Len)
	return k, nil
}

// Account is the account that pays for a request: that of the client's address, or
// SharedAccount when there are too many or the address is not known. It counts as
// a use.
func (k *Keys) Account(req *http.Request) string { return k.AccountFor(req.RemoteAddr, req.Header) }

// AccountFor is Account, of a peer and the header of its request. The names of
// header fields must be canonical.
func (k *Keys) AccountFor(remoteAddr string, header http.Header) string {
	client, origin := k.Client(remoteAddr, header)
	account, own := SharedAccount, false
	if origin != NoAddress {
		account, own = k.use(client)
	}
	k.metrics.count(origin, own)
	return account
}

// use is the account of the client, of its own while there is room.
func (k *Keys) use(client netip.Prefix) (account string, own bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.advance()
	if element, ok := k.clients[client]; ok {
		e := element.Value.(*entry) //nolint:errcheck // nothing else is put there
		e.lastUse = now
		k.used.MoveToFront(element)
		return e.account, true
	}
	if len(k.clients) >= k.cfg.MaxKeys {
		return SharedAccount, false
	}
	e := &entry{client: client, account: AccountOf(client), lastUse: now}
	k.clients[client] = k.used.PushFront(e)
	return e.account, true
}

// advance reads the clock and lets those go that were not used for IdleAfter. Each
// leaves once for each time it came, so this costs little on the average.
func (k *Keys) advance() time.Duration {
	k.now = max(k.now, k.cfg.Mono())
	for last := k.used.Back(); last != nil; last = k.used.Back() {
		e := last.Value.(*entry) //nolint:errcheck // nothing else is put there
		if k.now-e.lastUse < k.cfg.IdleAfter {
			break
		}
		k.used.Remove(last)
		delete(k.clients, e.client)
	}
	return k.now
}

// Len is how many clients have an account of their own now.
func (k *Keys) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.advance()
	return len(k.clients)
}

// metrics count requests by where the address comes from and who pays.
type metrics struct {
	requests map[Origin][2]prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, clients func() int) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "tokenlease", Subsystem: "anonymous", Name: "requests_total",
		Help: "Unauthenticated requests by the origin of the client's address, and by whether an account of its own paid or the shared one.",
	}, []string{"origin", "account"})
	reg.MustRegister(requests, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "tokenlease", Subsystem: "anonymous", Name: "keys",
		Help: "Clients that have an account of their own now.",
	}, func() float64 { return float64(clients()) }))
	m := &metrics{requests: map[Origin][2]prometheus.Counter{}}
	for _, origin := range []Origin{FromPeer, FromHeader, Unreadable, NoAddress} {
		m.requests[origin] = [2]prometheus.Counter{
			requests.WithLabelValues(string(origin), "shared"), requests.WithLabelValues(string(origin), "own"),
		}
	}
	return m
}

func (m *metrics) count(origin Origin, own bool) {
	counters := m.requests[origin]
	if own {
		counters[1].Inc()
	} else {
		counters[0].Inc()
	}
}
