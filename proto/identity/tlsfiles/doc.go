// Package tlsfiles keeps what TLS needs in step with its files: a certificate and
// its key, the authorities that others are verified by, and the mapping of names to
// roles. They are read again when they have changed, without a restart.
//
// There are two parts: the certificate with its key, and the authorities with the
// roles. Each counts as a whole or not at all, and without the other: while the own
// certificate is not right, an authority that was taken out is no longer trusted. A
// key of another certificate, a certificate that has expired, a file of authorities
// with a broken or no certificate in it: each is logged and counted, and what was in
// force before stays in force until the files are right.
//
// A file that is seen in the middle of being written can look right. So a change is
// taken when two looks in a row have found the same.
//
// Servers take [Files.ServerConfig], and a guard of package identity that judges
// callers by [Files.Trust]. Clients take a [Transport], which makes new connections
// when the files have changed. There is no session resumption on either side, and
// nothing below TLS 1.3.
//
// Everything here may be used by any number of goroutines.
package tlsfiles
