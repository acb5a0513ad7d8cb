package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"connectrpc.com/connect"
)

// Exit codes. The help of the root command documents them.
const (
	exitYes         = 0
	exitNo          = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitRefused     = 4
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

// Unwrap is the cause.
func (e usageError) Unwrap() error { return e.error }

// usageErrorf is a usageError with a formatted text.
func usageErrorf(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// exitError ends the program with a code. An error without text ends it in
// silence: all was said in the output.
type exitError struct {
	code int
	text string
}

// Error is the text.
func (e exitError) Error() string { return e.text }

// serverError is what went wrong with a server.
type serverError struct {
	who   string // "broker" or "limiter", also the name of the flag
	where string // its URL
	err   error
	look  string // the command that tells whether a change was made; empty: none was asked for
}

// Unwrap is the cause.
func (e serverError) Unwrap() error { return e.err }

// Error says what happened and what to do next.
func (e serverError) Error() string {
	text := e.err.Error()
	if failed, ok := errors.AsType[*connect.Error](e.err); ok {
		text = failed.Message()
	}
	if request, ok := errors.AsType[*url.Error](e.err); ok {
		text = request.Err.Error() // without the method and the URL
	}
	text = plainLines(text)
	choose := fmt.Sprintf("with --%s URL or %s", e.who, environmentName(e.who))
	switch {
	case errors.Is(e.err, context.Canceled):
		return fmt.Sprintf("interrupted before the %s at %s had answered%s", e.who, e.where, e.unknown())
	case connect.CodeOf(e.err) == connect.CodeDeadlineExceeded:
		return fmt.Sprintf("the %s at %s did not answer in time%s.\nGive it longer with --timeout, or name another %s", e.who, e.where, e.unknown(), choose)
	case connect.CodeOf(e.err) == connect.CodeUnavailable && connect.IsWireError(e.err):
		return fmt.Sprintf("the %s at %s cannot answer now: %s%s.\nTry again, or name another %s", e.who, e.where, text, e.unknown(), choose)
	case connect.CodeOf(e.err) == connect.CodeInternal && !connect.IsWireError(e.err) && strings.HasPrefix(e.where, "http://"):
		return fmt.Sprintf("what answers at %s does not speak as a %s does (%s).\nDoes it want https? Name it %s", e.where, e.who, text, choose)
	case isUnverified(e.err):
		return fmt.Sprintf("the certificate of the %s at %s cannot be verified: %s.\nName the file of its authorities with --ca or %s", e.who, e.where, text, environmentName("ca"))
	case exitCode(e) == exitUnreachable:
		ask := "Is it running?"
		if errors.Is(e.err, syscall.ECONNRESET) && strings.HasPrefix(e.where, "http://") { // as its answer in clear text may be lost by
			ask += " Does it want https?"
		}
		return fmt.Sprintf("cannot reach the %s at %s: %s.\n%s Name another %s", e.who, e.where, text, ask, choose)
	case exitCode(e) == exitNo:
		return text
	case connect.CodeOf(e.err) == connect.CodeUnimplemented:
		return fmt.Sprintf("what answers at %s does not know the request (%s).\nIs it a %s, and of this version? Name another %s", e.where, text, e.who, choose)
	}
	return fmt.Sprintf("the %s at %s refused (%s): %s", e.who, e.where, connect.CodeOf(e.err), text)
}

// unknown says that a change may have been made without an answer, and how to look.
func (e serverError) unknown() string {
	if e.look == "" {
		return ""
	}
	return fmt.Sprintf(".\nThe change may have been made all the same: `%s` tells", e.look)
}

// isUnverified says that a server was reached, and could not prove who it is.
func isUnverified(err error) bool {
	_, failed := errors.AsType[*tls.CertificateVerificationError](err)
	return failed
}

// exitCode is the code that an error ends the program with. What neither a
// server nor a command has said is wrong usage.
func exitCode(err error) int {
	var exit exitError
	var server serverError
	switch {
	case err == nil:
		return exitYes
	case errors.As(err, &exit):
		return exit.code
	case !errors.As(err, &server):
		return exitUsage
	}
	switch connect.CodeOf(server.err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled:
		return exitUnreachable
	case connect.CodeNotFound:
		if connect.IsWireError(server.err) {
			return exitNo
		}
		return exitRefused
	default:
		return exitRefused
	}
}

// isSilent says whether there is nothing to print for an error.
func isSilent(err error) bool { return err.Error() == "" }

// isUsage says whether the help would have helped.
func isUsage(err error) bool {
	var usage usageError
	var exit exitError
	return errors.As(err, &usage) && !errors.As(err, &exit)
}
