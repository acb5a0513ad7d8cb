package main

import (
	"net/http"

	"github.com/tokenlease/tokenlease/broker/plainconfig"
)

// addPlainConfig serves limits in plain JSON beside the methods of a broker, which are
// asked for each of them in the caller's name.
func addPlainConfig(mux *http.ServeMux) { plainconfig.New(plainconfig.Within(mux)).Mount(mux) }
