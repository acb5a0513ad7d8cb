// Package localca is an authority for trials and tests: it signs certificates of
// every role of tokenlease, with names as package identity reads them. Its key lies
// beside its certificates, so production has another authority.
package localca
