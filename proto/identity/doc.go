// Package identity says who calls a server of tokenlease, and what that caller
// may do.
//
// # Names and roles
//
// A caller is a [Peer]: the names in the client certificate that it has shown,
// and the roles that these give it. [Identify] reads them. A URI of the form
//
//	spiffe://TRUST-DOMAIN/tokenlease/holder/REGION/INSTANCE
//	spiffe://TRUST-DOMAIN/tokenlease/gateway/NAME
//	spiffe://TRUST-DOMAIN/tokenlease/viewer/NAME
//	spiffe://TRUST-DOMAIN/tokenlease/operator/NAME
//	spiffe://TRUST-DOMAIN/tokenlease/broker/NAME
//
// gives its role by itself. Certificates of another authority have other names;
// a [Mapping], read from a file, gives those their roles. A certificate may have
// several names, and the peer has the roles of all of them. It is recorded under
// the first name that gives a role.
//
//	holder    takes credit as one holder, its own region and instance (service Broker)
//	gateway   asks for decisions (service Limiter)
//	viewer    sees everything that operators see (the reading half of Admin, and dry runs)
//	operator  sees and changes everything (all of Admin)
//	broker    passes on what other brokers have let in (services Broker and Admin)
//
// # Verdicts
//
// [Methods] tells what roles may call. What is not in the table is refused, so
// that a new method is closed until somebody opens it.
//
// A [Guard] stands in front of a server. It verifies the certificate of each
// request against the authorities that are in force at that moment, not only
// those of the handshake: an authority that was removed, and a certificate that
// has expired, end at the next request of a connection, and at the next message
// of a stream. The verdict is kept for the connection, and is reached anew when
// the [Trust] has changed or the certificate's time is over. Beyond that, each
// connection is closed after a bounded time.
//
// A refusal has code unauthenticated (no certificate, or none that is valid) or
// permission_denied (the role that is needed, and who the caller is). It is
// counted, and logged now and then. It is never stored.
//
// # Brokers that pass requests on
//
// A broker passes a request on with the name of its caller in a header. Only a
// peer with the role broker is believed; from others the header means nothing.
//
// Everything here may be used by any number of goroutines.
package identity
