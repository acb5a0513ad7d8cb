package main

import (
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// maxShards is the largest number of shards: each has an owner and a head.
const maxShards = 1024

// brokerSettings configure a broker.
type brokerSettings struct {
	listen        string
	advertise     string
	metricsListen string
	dataDir       string
	shards        uint32
	sessionTTL    time.Duration
	auditFor      span
	dashboard     dashboardSettings
	plainConfig   bool
	tls           tlsSettings
	etcd          etcdSettings
	trace         traceSettings
	log           logSettings
}

// etcdSettings locate a cluster that the broker does not run itself.
type etcdSettings struct {
	endpoints    []string
	prefix       string
	caCert       string
	cert         string
	key          string
	user         string
	passwordFile string
}

// register adds the settings to flags.
func (s *brokerSettings) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.listen, "listen", "127.0.0.1:7600", "`address` to serve on")
	flags.StringVar(&s.advertise, "advertise", "", "`URL` at which other brokers reach this one (default: from --listen)")
	flags.StringVar(&s.metricsListen, "metrics-listen", "", "`address` for metrics and health, besides --listen; clear text on loopback (default: none)")
	flags.StringVar(&s.dataDir, "data-dir", "", "`directory` of the embedded etcd; excludes --etcd-endpoints")
	flags.Uint32Var(&s.shards, "shards", 16, "shards of a new cluster; fixed from then on")
	flags.DurationVar(&s.sessionTTL, "session-ttl", 5*time.Second, "how long a silent broker keeps its shards, in whole seconds")
	s.auditFor = span(90 * 24 * time.Hour)
	flags.Var(&s.auditFor, "audit-retention", "how long audit entries are kept; the newest 1,000 stay, and beyond 100,000 the oldest go earlier")
	s.dashboard.register(flags)
	flags.BoolVar(&s.plainConfig, "plain-config", false, "serve limits and plans in plain JSON below /v1/config/")
	s.tls.register(flags)
	s.etcd.register(flags)
	s.trace.register(flags)
	s.log.register(flags)
}

// register adds the settings to flags.
func (s *etcdSettings) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.endpoints, "etcd-endpoints", nil, "`URLs` of an etcd cluster, with commas between")
	flags.StringVar(&s.prefix, "etcd-prefix", "/tokenlease/", "what every key begins with")
	flags.StringVar(&s.caCert, "etcd-cacert", "", "`file` of the authority that etcd's certificates are checked by")
	flags.StringVar(&s.cert, "etcd-cert", "", "`file` of the certificate to show to etcd")
	flags.StringVar(&s.key, "etcd-key", "", "`file` of its key")
	flags.StringVar(&s.user, "etcd-user", "", "`name` to log in to etcd with")
	flags.StringVar(&s.passwordFile, "etcd-password-file", "", "`file` of the password; a flag would show it to every process")
}

// validate checks the settings together.
func (s *brokerSettings) validate() error {
	if err := checkAddress("listen", s.listen); err != nil {
		return err
	}
	if s.metricsListen != "" {
		if err := checkAddress("metrics-listen", s.metricsListen); err != nil {
			return err
		}
	}
	if s.advertise != "" {
		if err := checkURL("advertise", s.advertise); err != nil {
			return err
		}
	}
	switch {
	case (s.dataDir == "") == (len(s.etcd.endpoints) == 0):
		return usageErrorf("want either --data-dir, for an embedded etcd, or --etcd-endpoints")
	case s.shards < 1 || s.shards > maxShards:
		return usageErrorf("--shards %d must be 1 to %d", s.shards, maxShards)
	case s.sessionTTL < 2*time.Second || s.sessionTTL%time.Second != 0:
		return usageErrorf("--session-ttl %v must be whole seconds, 2s or more", s.sessionTTL)
	case time.Duration(s.auditFor) < time.Hour:
		return usageErrorf("--audit-retention %s must be 1h or more", &s.auditFor)
	}
	if err := s.dashboard.validate(); err != nil {
		return err
	}
	if s.tls.on() && strings.HasPrefix(s.advertise, "http://") {
		return usageErrorf("--advertise %s is clear text, and with --tls-cert this broker speaks TLS alone: advertise https", s.advertise)
	}
	if err := s.tls.validate([2]string{"listen", s.listen}, [2]string{"metrics-listen", s.metricsListen}); err != nil {
		return err
	}
	if err := s.trace.validate(s.tls.allowPlaintext); err != nil {
		return err
	}
	return s.etcd.validate(s.tls.allowPlaintext)
}

// validate checks the settings together. plaintext allows clear text beyond loopback.
func (s *etcdSettings) validate(plaintext bool) error {
	for _, endpoint := range s.endpoints {
		if err := checkURL("etcd-endpoints", endpoint); err != nil {
			return err
		}
		if isClear(endpoint) && !plaintext {
			return usageErrorf("--etcd-endpoints %s is clear text: whoever is on the way could read the password and change every budget; name it with https, or say --%s", endpoint, plaintextFlag)
		}
	}
	switch {
	case s.prefix == "" || s.prefix[len(s.prefix)-1] != '/':
		return usageErrorf("--etcd-prefix %q must end in a slash", s.prefix)
	case (s.cert == "") != (s.key == ""):
		return usageErrorf("--etcd-cert and --etcd-key need each other")
	case (s.user == "") != (s.passwordFile == ""):
		return usageErrorf("--etcd-user and --etcd-password-file need each other")
	}
	return nil
}
