// Package strictjson says whether bytes are one JSON value of which a decoder would
// guess nothing.
package strictjson
