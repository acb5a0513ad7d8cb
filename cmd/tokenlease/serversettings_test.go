package main

import (
	"testing"

	"github.com/spf13/pflag"
)

// validated are settings that can be checked.
type validated interface {
	register(*pflag.FlagSet)
	validate() error
}

// withTLS are the flags of TLS, and more.
func withTLS(more ...string) []string {
	return append([]string{"--tls-cert=c", "--tls-key=k", "--tls-client-ca=a"}, more...)
}

func TestServerSettings(t *testing.T) {
	broker := func() validated { return &brokerSettings{} }
	limiter := func() validated { return &limiterSettings{} }
	external := []string{"--etcd-endpoints=https://a:2379,https://b:2379"}
	holder := []string{"--region=eu", "--instance=limiter-0", "--journal-dir=j"}
	tests := []struct {
		kind  func() validated
		base  []string
		flags []string
		want  string // the error, empty for none
	}{
		{broker, nil, []string{"--data-dir=d"}, ""},
		{broker, external, []string{"--etcd-cacert=ca", "--etcd-cert=c", "--etcd-key=k", "--etcd-user=u", "--etcd-password-file=p"}, ""},
		{broker, external, []string{"--advertise=https://broker-0.example:7600", "--metrics-listen=:9600", "--listen=[::]:7600", "--allow-plaintext"}, ""},
		{broker, external, withTLS("--advertise=https://broker-0.example:7600", "--metrics-listen=:9600", "--listen=[::]:7600", "--roles=r", "--connection-max-age=24h"), ""},
		{broker, external, []string{"--listen=localhost:0", "--metrics-listen=[::1]:9600"}, ""},
		{broker, external, []string{"--listen=10.0.0.5:7600"}, "--listen 10.0.0.5:7600 is not on loopback, and without certificates it would be clear text, open to everybody: give --tls-cert, --tls-key and --tls-client-ca (`tokenlease certs dev` makes some to try), or say --allow-plaintext"},
		{broker, external, []string{"--listen=:7600"}, "--listen :7600 is not on loopback, and without certificates it would be clear text, open to everybody: give --tls-cert, --tls-key and --tls-client-ca (`tokenlease certs dev` makes some to try), or say --allow-plaintext"},
		{broker, external, []string{"--metrics-listen=0.0.0.0:9600"}, "--metrics-listen 0.0.0.0:9600 is not on loopback, and without certificates it would be clear text, open to everybody: give --tls-cert, --tls-key and --tls-client-ca (`tokenlease certs dev` makes some to try), or say --allow-plaintext"},
		{broker, external, []string{"--tls-cert=c", "--tls-key=k"}, "--tls-cert, --tls-key and --tls-client-ca need each other: the first two say who this is, the third by whom callers are vouched for"},
		{broker, external, []string{"--tls-client-ca=a"}, "--tls-cert, --tls-key and --tls-client-ca need each other: the first two say who this is, the third by whom callers are vouched for"},
		{broker, external, []string{"--roles=r"}, "--roles needs --tls-cert, --tls-key and --tls-client-ca: without certificates nobody has a name"},
		{broker, external, withTLS("--connection-max-age=999ms"), "--connection-max-age 999ms must be 1s to 24h"},
		{broker, external, withTLS("--advertise=http://broker-0.example:7600"), "--advertise http://broker-0.example:7600 is clear text, and with --tls-cert this broker speaks TLS alone: advertise https"},
		{broker, nil, nil, "want either --data-dir, for an embedded etcd, or --etcd-endpoints"},
		{broker, external, []string{"--data-dir=d"}, "want either --data-dir, for an embedded etcd, or --etcd-endpoints"},
		{broker, external, []string{"--listen=7600"}, `--listen "7600" is not an address such as 127.0.0.1:7600`},
		{broker, external, []string{"--metrics-listen=x"}, `--metrics-listen "x" is not an address such as 127.0.0.1:7600`},
		{broker, external, []string{"--advertise=broker-0:7600"}, `--advertise "broker-0:7600" is not a URL such as http://127.0.0.1:7600`},
		{broker, nil, []string{"--etcd-endpoints=a:2379"}, `--etcd-endpoints "a:2379" is not a URL such as http://127.0.0.1:7600`},
		{broker, nil, []string{"--etcd-endpoints=http://127.0.0.1:2379,http://localhost:2379", "--etcd-user=u", "--etcd-password-file=p"}, ""},
		{broker, nil, []string{"--etcd-endpoints=http://10.1.2.3:2379", "--trace-endpoint=http://collector:4318", "--allow-plaintext"}, ""},
		{broker, nil, withTLS("--etcd-endpoints=https://a:2379,http://10.1.2.3:2379"), "--etcd-endpoints http://10.1.2.3:2379 is clear text: whoever is on the way could read the password and change every budget; name it with https, or say --allow-plaintext"},
		{broker, external, []string{"--trace-endpoint=http://collector:4318"}, "--trace-endpoint http://collector:4318 is clear text: whoever is on the way could read who is asked what, and when; name it with https, send to a collector on loopback, or say --allow-plaintext"},
		{broker, external, []string{"--shards=0"}, "--shards 0 must be 1 to 1024"},
		{broker, external, []string{"--shards=1025"}, "--shards 1025 must be 1 to 1024"},
		{broker, external, []string{"--session-ttl=1s"}, "--session-ttl 1s must be whole seconds, 2s or more"},
		{broker, external, []string{"--audit-retention=59m"}, "--audit-retention 59m must be 1h or more"},
		{broker, external, []string{"--session-ttl=2500ms"}, "--session-ttl 2.5s must be whole seconds, 2s or more"},
		{broker, external, []string{"--dashboard-path="}, ""},
		{broker, external, []string{"--dashboard-path=ui"}, `--dashboard-path: the dashboard's path "ui" must begin and end with a slash, as /ui/ does`},
		{broker, external, []string{"--etcd-prefix=/t"}, `--etcd-prefix "/t" must end in a slash`},
		{broker, external, []string{"--etcd-cert=c"}, "--etcd-cert and --etcd-key need each other"},
		{broker, external, []string{"--etcd-password-file=p"}, "--etcd-user and --etcd-password-file need each other"},

		{limiter, holder, nil, ""},
		{limiter, holder, []string{"--journal=confirm", "--first-grant-wait=0s", "--max-waiters=0", "--metrics-listen=:9700", "--allow-plaintext"}, ""},
		{limiter, holder, withTLS("--listen=:7700", "--metrics-listen=:9700", "--envoy-listen=:7801", "--envoy-mapping=m", "--brokers=https://broker-0:7600"), ""},
		{limiter, holder, []string{"--brokers=https://broker-0:7600", "--broker-ca=a", "--broker-cert=c", "--broker-key=k"}, ""},
		{limiter, holder, []string{"--brokers=http://broker-0:7600", "--allow-plaintext"}, ""},
		{limiter, holder, []string{"--brokers=http://localhost:7600,http://[::1]:7601"}, ""},
		{limiter, holder, withTLS("--brokers=https://broker-0:7600,http://broker-1:7600"), "--brokers http://broker-1:7600 is clear text: whoever is on the way could hand out credit; name it with https, or say --allow-plaintext"},
		{limiter, holder, []string{"--trace-endpoint=http://collector:4318", "--allow-plaintext"}, ""},
		{limiter, holder, []string{"--trace-endpoint=http://collector:4318"}, "--trace-endpoint http://collector:4318 is clear text: whoever is on the way could read who is asked what, and when; name it with https, send to a collector on loopback, or say --allow-plaintext"},
		{limiter, holder, []string{"--broker-cert=c"}, "--broker-cert and --broker-key need each other"},
		{limiter, holder, []string{"--envoy-listen=:7801", "--envoy-mapping=m"}, "--envoy-listen :7801 is not on loopback, and without certificates it would be clear text, open to everybody: give --tls-cert, --tls-key and --tls-client-ca (`tokenlease certs dev` makes some to try), or say --allow-plaintext"},
		{limiter, holder, []string{"--listen=192.168.1.1:7700"}, "--listen 192.168.1.1:7700 is not on loopback, and without certificates it would be clear text, open to everybody: give --tls-cert, --tls-key and --tls-client-ca (`tokenlease certs dev` makes some to try), or say --allow-plaintext"},
		{limiter, nil, []string{"--region=eu", "--instance=limiter-0", "--journal=off"}, ""},
		{limiter, nil, []string{"--region=eu", "--instance=limiter-0"}, `--journal block and --journal-dir "" do not fit: a journal needs a directory, and --journal off has none`},
		{limiter, holder, []string{"--journal=off"}, `--journal off and --journal-dir "j" do not fit: a journal needs a directory, and --journal off has none`},
		{limiter, nil, []string{"--journal-dir=j"}, "--region: must have 1 to 64 bytes, has 0"},
		{limiter, holder, []string{"--instance=a/b"}, "--instance: must be of letters, digits, '.', '_' and '-', has '/' at byte 1"},
		{limiter, holder, []string{"--listen="}, `--listen "" is not an address such as 127.0.0.1:7600`},
		{limiter, holder, []string{"--metrics-listen=9700"}, `--metrics-listen "9700" is not an address such as 127.0.0.1:7600`},
		{limiter, holder, []string{"--brokers=http://127.0.0.1:1,b"}, `--brokers "b" is not a URL such as http://127.0.0.1:7600`},
		{limiter, holder, []string{"--brokers="}, "--brokers must name at least one broker"},
		{limiter, holder, []string{"--first-grant-wait=-1s"}, "--first-grant-wait -1s must be 0 to 1m"},
		{limiter, holder, []string{"--max-waiters=-1"}, "--max-waiters -1 must be 0 or more"},
		{limiter, holder, []string{"--sync-interval=0s"}, "--sync-interval 0s must be 1ms to 1s"},
		{limiter, holder, []string{"--sync-interval=1001ms"}, "--sync-interval 1.001s must be 1ms to 1s"},
	}
	for _, test := range tests {
		settings := test.kind()
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		settings.register(flags)
		if err := flags.Parse(append(test.base, test.flags...)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := settings.validate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%T %v %v:\n got %q\nwant %q", settings, test.base, test.flags, got, test.want)
		}
	}
}

func TestChoice(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	settings := &logSettings{}
	settings.register(flags)
	if settings.level.String() != "info" || settings.format.String() != "text" {
		t.Errorf("the defaults are %v and %v, want info and text", &settings.level, &settings.format)
	}
	if err := flags.Set("log-level", "debug"); err != nil || settings.level.String() != "debug" {
		t.Errorf("setting debug: %v, %v", err, &settings.level)
	}
	if err := flags.Set("log-level", "loud"); err == nil || settings.level.String() != "debug" {
		t.Errorf("setting loud: %v, %v, want an error and debug as before", err, &settings.level)
	}
}
