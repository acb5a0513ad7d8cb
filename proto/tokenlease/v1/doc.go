// Package tokenleasev1 has the messages of the services of tokenlease.v1, their
// limits, and a Validate method for each request.
//
// All of it but the validation is generated from the proto files, which document
// every message and field with its unit.
package tokenleasev1
