package journal

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// kind tells which record a checksum is of.
type kind byte

const (
	kindFormat kind = iota + 1
	kindHead
	kindStart
	kindDrawn
)

const (
	magic   = "tokenlease journal"
	version = 1

	sumSize   = 8
	drawnSize = 8 + sumSize
)

// place says where a record is kept. It is part of the record's checksum, so a record that turns up
// under another key, or in another epoch, does not pass.
type place struct {
	kind  kind
	epoch uint64
	id    string
}

// checksum returns the checksum of a record at p.
func (p place) checksum(payload []byte) uint64 {
	var prefix [13]byte
	prefix[0] = byte(p.kind)
	binary.BigEndian.PutUint64(prefix[1:], p.epoch)
	binary.BigEndian.PutUint32(prefix[9:], uint32(len(p.id)))
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(prefix[:])
	_, _ = d.WriteString(p.id)
	_, _ = d.Write(payload)
	return d.Sum64()
}

// seal appends the checksum to a payload and returns both.
func (p place) seal(payload []byte) (value []byte, sum uint64) {
	sum = p.checksum(payload)
	return binary.BigEndian.AppendUint64(payload, sum), sum
}

// unseal returns the payload of a sealed value and its checksum, or [ErrCorrupt].
func (p place) unseal(value []byte) (payload []byte, sum uint64, err error) {
	if len(value) < sumSize {
		return nil, 0, corruptf("record %q of epoch %d has %d bytes", p.id, p.epoch, len(value))
	}
	payload = value[:len(value)-sumSize]
	sum = binary.BigEndian.Uint64(value[len(payload):])
	if sum != p.checksum(payload) {
		return nil, 0, corruptf("record %q of epoch %d does not match its checksum", p.id, p.epoch)
	}
	return payload, sum, nil
}

// head is the file's first record: whose it is, and what pins all that it holds.
type head struct {
	last   uint64 // highest epoch that was ever begun here
	digest uint64 // wrapping sum of the checksums of all start records
	// The holder, and the cluster's ID, empty until it is known.
	region, instance, cluster string
}

func headPlace() place { return place{kind: kindHead} }

func encodeHead(h head) []byte {
	b := binary.BigEndian.AppendUint64(nil, h.last)
	b = binary.BigEndian.AppendUint64(b, h.digest)
	for _, s := range []string{h.region, h.instance, h.cluster} {
		b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
		b = append(b, s...)
	}
	b, _ = headPlace().seal(b)
	return b
}

func decodeHead(value []byte) (head, error) {
	b, _, err := headPlace().unseal(value)
	if err != nil {
		return head{}, err
	}
	if len(b) < 16 {
		return head{}, corruptf("the head record has %d bytes", len(b))
	}
	h := head{last: binary.BigEndian.Uint64(b), digest: binary.BigEndian.Uint64(b[8:])}
	b = b[16:]
	for _, s := range []*string{&h.region, &h.instance, &h.cluster} {
		if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
			return head{}, corruptf("the head record ends early")
		}
		n := int(binary.BigEndian.Uint16(b))
		*s, b = string(b[2:2+n]), b[2+n:]
	}
	if len(b) != 0 {
		return head{}, corruptf("the head record has %d bytes too many", len(b))
	}
	return h, nil
}

// start is an epoch's own record.
type start struct {
	counter uint64 // transactions that touched the epoch, its Begin included
	grants  uint64 // drawn records
	digest  uint64 // wrapping sum of their checksums
	nonce   string
}

func startPlace(epoch uint64) place { return place{kind: kindStart, epoch: epoch} }

func encodeStart(epoch uint64, s start) (value []byte, sum uint64) {
	b := binary.BigEndian.AppendUint64(nil, s.counter)
	b = binary.BigEndian.AppendUint64(b, s.grants)
	b = binary.BigEndian.AppendUint64(b, s.digest)
	return startPlace(epoch).seal(append(b, s.nonce...))
}

func decodeStart(epoch uint64, value []byte) (s start, sum uint64, err error) {
	b, sum, err := startPlace(epoch).unseal(value)
	if err != nil {
		return start{}, 0, err
	}
	if len(b) <= 24 {
		return start{}, 0, corruptf("the start record of epoch %d has %d bytes", epoch, len(b))
	}
	s.counter = binary.BigEndian.Uint64(b)
	s.grants = binary.BigEndian.Uint64(b[8:])
	s.digest = binary.BigEndian.Uint64(b[16:])
	s.nonce = string(b[24:])
	return s, sum, nil
}

func drawnPlace(epoch uint64, id string) place { return place{kind: kindDrawn, epoch: epoch, id: id} }

func encodeDrawn(epoch uint64, d Drawn) (value []byte, sum uint64) {
	b := make([]byte, 0, drawnSize)
	b = binary.BigEndian.AppendUint64(b, uint64(d.Tokens))
	return drawnPlace(epoch, d.GrantID).seal(b)
}

func decodeDrawn(epoch uint64, id string, value []byte) (tokens int64, sum uint64, err error) {
	b, sum, err := drawnPlace(epoch, id).unseal(value)
	if err != nil {
		return 0, 0, err
	}
	if len(b) != drawnSize-sumSize {
		return 0, 0, corruptf("grant %q of epoch %d has a record of %d bytes", id, epoch, len(value))
	}
	tokens = int64(binary.BigEndian.Uint64(b))
	if tokens < 0 {
		return 0, 0, corruptf("grant %q of epoch %d has drawn %d tokens", id, epoch, tokens)
	}
	return tokens, sum, nil
}

func formatPlace() place { return place{kind: kindFormat} }

func encodeFormat(v uint32) []byte {
	b, _ := formatPlace().seal(binary.BigEndian.AppendUint32([]byte(magic), v))
	return b
}

// decodeFormat returns [ErrCorrupt] for what no version of this package wrote, and the version.
func decodeFormat(value []byte) (uint32, error) {
	b, _, err := formatPlace().unseal(value)
	if err != nil {
		return 0, err
	}
	if len(b) != len(magic)+4 || string(b[:len(magic)]) != magic {
		return 0, corruptf("the file is not a journal")
	}
	return binary.BigEndian.Uint32(b[len(magic):]), nil
}
