package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nginxConf is a whole configuration around the snippet that forwardauth's
// documentation gives.
func nginxConf(t *testing.T, listen, limiter, service string) string {
	t.Helper()
	page, err := os.ReadFile("../../regional/gateway/forwardauth/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(page), "\n// # NGINX\n")
	if !found {
		t.Fatal("forwardauth documents no NGINX")
	}
	var snippet strings.Builder
	for line := range strings.SplitSeq(part, "\n") {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			fmt.Fprintln(&snippet, code)
		}
	}
	text := strings.NewReplacer("http://127.0.0.1:7700", "http://"+limiter, "http://service", "http://"+service).Replace(snippet.String())
	return fmt.Sprintf(`daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    map $http_authorization $verified_account { "token-of-acme" acme; default ""; }
    server {
        listen %s;
%s    }
}
`, listen, text)
}

// A real NGINX before a service asks a real limiter by auth_request, with the
// configuration that the documentation gives: clients get 200, 429 where the budget is
// used up, 403 where nobody was verified, and 503 where the limiter is gone.
func TestNginxAsksByAuthRequest(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("NGINX is not installed: install the package nginx-light (Debian) to run this test")
	}
	broker := launch(t, freeAddress(t), "broker", "--data-dir", t.TempDir(), "--shards", "1")
	apply(t, broker.url, policyFile(t, 3, "0", 1))
	dir := t.TempDir()
	rules := filepath.Join(dir, "forward-auth.yaml")
	writeFile(t, rules, `proxies: [127.0.0.0/8]
account-header: X-Account
rules: [{path: /, operation: op}]
method-header: X-Original-Method
uri-header: X-Original-URI
deny-as-403: true
`)
	eu := launch(t, freeAddress(t), append(limiterArgs(broker.url, "eu", t.TempDir()), "--forward-auth", rules)...)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "served") }))
	defer service.Close()
	listen := freeAddress(t)
	conf := filepath.Join(dir, "nginx.conf")
	writeFile(t, conf, nginxConf(t, listen, strings.TrimPrefix(eu.url, "http://"), service.Listener.Addr().String()))
	startNginx(t, nginx, dir, conf, listen)

	get := func(token string) (status int, header http.Header, body string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listen+"/reports", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(text)
	}
	for i := range 3 {
		if status, header, body := get("token-of-acme"); status != http.StatusOK || body != "served\n" || header.Get("Ratelimit-Policy") == "" {
			t.Errorf("request %d: %d %v %q", i, status, header, body)
		}
	}
	if status, header, _ := get("token-of-acme"); status != http.StatusTooManyRequests || header.Get("Ratelimit") == "" {
		t.Errorf("of a used-up budget: %d %v", status, header)
	}
	if status, _, _ := get("unknown"); status != http.StatusForbidden {
		t.Errorf("without an account: %d", status)
	}
	eu.kill(syscall.SIGKILL)
	if status, header, _ := get("token-of-acme"); status != http.StatusServiceUnavailable {
		t.Errorf("without a limiter: %d %v", status, header)
	}
}

// startNginx runs NGINX until the end of the test, and waits until it listens.
func startNginx(t *testing.T, nginx, dir, conf, listen string) {
	t.Helper()
	cmd := exec.Command(nginx, "-p", dir, "-c", conf, "-e", "start.log")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	eventually(t, "NGINX listens", func() bool {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
