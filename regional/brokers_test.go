package regional

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	pb "github.com/tokenlease/tokenlease/proto/tokenlease/v1"
	"github.com/tokenlease/tokenlease/proto/tokenlease/v1/tokenleasev1connect"
)

// A broker with TLS that is asked in clear text answers with what no client of HTTP
// understands, of either version. What a broker has said itself, or that nobody
// listens, is another matter.
func TestHintAtHTTPS(t *testing.T) {
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secured.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	plain := strings.Replace(secured.URL, "https://", "http://", 1)
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		protocols := &http.Protocols{}
		protocols.SetHTTP1(!http2)
		protocols.SetUnencryptedHTTP2(http2)
		client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		t.Cleanup(client.CloseIdleConnections)
		ask := func(url string) error {
			b := newBrokers([]tokenleasev1connect.BrokerClient{tokenleasev1connect.NewBrokerClient(client, url)})
			_, err := b.register(t.Context(), &pb.RegisterRequest{})
			return err
		}
		if err := ask(plain); !slices.Contains(clearHint([]string{"https://a", plain}, err), any("hint")) {
			t.Errorf("%s: no hint for %v (%v)", name, err, connect.CodeOf(err))
		} else if clearHint([]string{secured.URL}, err) != nil {
			t.Errorf("%s: a hint at https for https", name)
		}
		if err := ask(gone.URL); clearHint([]string{gone.URL}, err) != nil {
			t.Errorf("%s: a hint for %v (%v)", name, err, connect.CodeOf(err))
		}
	}
	for _, ended := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, errors.New("http2: client conn could not be established")} {
		err := connect.NewError(connect.CodeUnavailable, fmt.Errorf("read tcp: %w", ended))
		if clearHint([]string{plain}, err) == nil {
			t.Errorf("no hint for %v", err)
		}
	}
	for _, unanswered := range []error{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, context.DeadlineExceeded, context.Canceled} {
		if err := connect.NewError(connect.CodeUnavailable, unanswered); clearHint([]string{plain}, err) != nil {
			t.Errorf("a hint for %v", err)
		}
	}
	if said := connect.NewWireError(connect.CodeUnknown, errors.New("EOF")); clearHint([]string{plain}, said) != nil {
		t.Error("a hint for what a broker has said")
	}
}

func TestLoggedURLsHaveNoPasswords(t *testing.T) {
	got := shownURLs([]string{"http://bob:secret@a:1", "https://b"})
	if want := []string{"http://bob:xxxxx@a:1", "https://b"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
