// Package pmixtest is a client of PMIx for tests: it makes the bytes that clients of dialect v41
// send, and takes replies apart. It has no socket and checks nothing.
package pmixtest

import (
	"encoding/binary"
	"strings"

	"ibrun/bootstrap/clients/pmix"
)

// Commands, by the names of the client's calls.
const (
	GetJob           = 0
	Abort            = 1
	Commit           = 2
	Fence            = 3
	Get              = 4
	Finalize         = 5
	Publish          = 6
	Lookup           = 7
	Unpublish        = 8
	Spawn            = 9
	Connect          = 10
	Disconnect       = 11
	Notify           = 12
	RegisterEvents   = 13
	DeregisterEvents = 14
	Query            = 15
	Log              = 16
	JobControl       = 18
	GroupConstruct   = 24
	GroupDestruct    = 28
)

const headerSize = 16

// Client is a rank's side of one connection.
type Client struct {
	Namespace string
	Rank      uint32
	Version   string // of its library
	Dialect   string
	greeted   bool
	tag       uint32
	rest      []byte
}

// New is a client of libpmix 5.
func New(namespace string, rank uint32) *Client {
	return &Client{Namespace: namespace, Rank: rank, Version: "5.0.7", Dialect: "v41", tag: 100}
}

// Hello is its first message.
func (c *Client) Hello() []byte {
	b := append([]byte("native\x00"), 0, 0, 0, 8)
	b = append(b, make([]byte, 8)...) // user and group
	b = append(append(b, 0), c.Namespace+"\x00"...)
	b = binary.BigEndian.AppendUint32(b, c.Rank)
	b = append(b, c.Version+"\x00"+c.Dialect+"\x00\x01hash\x00"...)
	head := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	head = binary.NativeEndian.AppendUint32(head, uint32(len(b)))
	return append(append(head, 0, 0, 0, 0), b...)
}

// Request is a message with a command and its fields. Tags count from 101.
func (c *Client) Request(command byte, fields ...[]byte) []byte {
	body := U8(command)
	for _, f := range fields {
		body = append(body, f...)
	}
	c.tag++
	b := make([]byte, 0, headerSize+len(body))
	for _, n := range []uint32{0, c.tag, uint32(len(body)), 0} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, body...)
}

// Reply is one message of the server's. Tag 0 is an event; the reply to Hello has tag 1.
type Reply struct {
	Tag    uint32
	Status pmix.Status // of all but the reply to GetJob and events
	Body   []byte      // behind the status
}

// Receive takes bytes of the server, in any pieces, and returns the messages that are complete.
func (c *Client) Receive(b []byte) (all []Reply) {
	c.rest = append(c.rest, b...)
	if !c.greeted && len(c.rest) >= 4 {
		r := Reply{Tag: 1, Status: pmix.Status(binary.BigEndian.Uint32(c.rest))}
		size := 4
		if r.Status == pmix.Done {
			size = 8
		}
		if len(c.rest) < size {
			return nil
		}
		c.greeted, c.rest = true, c.rest[size:]
		all = append(all, r)
	}
	for c.greeted && len(c.rest) >= headerSize {
		size := headerSize + int(binary.BigEndian.Uint32(c.rest[8:]))
		if len(c.rest) < size {
			break
		}
		r := Reply{Tag: binary.BigEndian.Uint32(c.rest[4:]), Body: c.rest[headerSize:size:size]}
		c.rest = c.rest[size:]
		if len(r.Body) > 0 && r.Body[0] == 2 { // a count of 1, then a status
			if n, used := binary.Uvarint(r.Body[1:]); used > 0 {
				r.Status, r.Body = pmix.Status(int32(n>>1)^-int32(n&1)), r.Body[1+used:]
			}
		}
		all = append(all, r)
	}
	return all
}

// U8 and its like are fields.
func U8(n byte) []byte { return []byte{2, n} }

// U32 is a number of 32 bits.
func U32(n uint32) []byte { return binary.AppendUvarint([]byte{2}, uint64(n)) }

// Size is how many items follow, and other sizes.
func Size(n int) []byte { return binary.AppendUvarint([]byte{2}, uint64(n)) }

// Status is a status or the code of an event.
func Status(s pmix.Status) []byte { return binary.AppendVarint([]byte{2}, int64(s)) }

// Text is a string.
func Text(s string) []byte { return text([]byte{2}, s) }

func text(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s)+1)), s+"\x00"...)
}

// Procs is a list of processes of one namespace.
func Procs(namespace string, ranks ...uint32) []byte {
	b := Size(len(ranks))
	if len(ranks) > 0 {
		b = binary.AppendVarint(b, int64(len(ranks)))
	}
	for _, r := range ranks {
		b = binary.AppendUvarint(text(b, namespace), uint64(r))
	}
	return b
}

// AllProcs joins lists that Procs has made.
func AllProcs(lists ...[]byte) []byte {
	n, items := 0, []byte(nil)
	for _, l := range lists {
		count, used := binary.Uvarint(l[1:])
		_, again := binary.Varint(l[1+used:])
		n, items = n+int(count), append(items, l[1+used+again:]...)
	}
	return append(binary.AppendVarint(Size(n), int64(n)), items...)
}

// Attrs is a list of attributes.
func Attrs(attrs ...pmix.Attr) []byte {
	b := Size(len(attrs))
	if len(attrs) > 0 {
		b = binary.AppendVarint(b, int64(len(attrs)))
	}
	for _, a := range attrs {
		b = binary.AppendUvarint(text(b, a.Key), uint64(a.Flags))
		b = a.Value.Append(b)
	}
	return b
}

// Keys is a list of strings with a count each.
func Keys(keys ...string) []byte {
	b := Size(len(keys))
	for _, k := range keys {
		b = append(b, Text(k)...)
	}
	return b
}

// Values is what a commit has for one scope.
func Values(scope pmix.Scope, attrs ...pmix.Attr) []byte {
	pairs := pmix.PairsOf(attrs...).Bytes
	b := append(U8(byte(scope)), 2, 1) // a buffer without descriptions
	return append(binary.AppendUvarint(b, uint64(len(pairs))), pairs...)
}

// Wildcard is all ranks of a namespace.
const Wildcard = uint32(pmix.RankWildcard)

// Is is a flag that is set.
func Is(key string) pmix.Attr { return pmix.Attr{Key: key, Value: pmix.BoolValue(true)} }

// Word is an attribute with a string.
func Word(key, value string) pmix.Attr { return pmix.Attr{Key: key, Value: pmix.TextValue(value)} }

// Found reports whether a reply to a Get has a key with a string.
func (r Reply) Found(key, value string) bool {
	want := string(pmix.PairsOf(Word(key, value)).Bytes)
	return r.Status == pmix.Done && strings.Contains(string(r.Body), want)
}
