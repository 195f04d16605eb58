package charm

import (
	"encoding/binary"
	"errors"
	"strings"

	"ibrun/bootstrap/ccs"
)

// Types of frames of a program.
const (
	InitNode    = "initnode" // its first one: data port, and the generation of the table by its length
	Ping        = "ping"
	Print       = "print"
	PrintErr    = "printerr"
	PrintSyn    = "printsyn" // answered by PrintDone, as PrintErrSyn is
	PrintErrSyn = "printerrsyn"
	Scanf       = "scanf"    // a format; answered by ScanfData
	Barrier     = "barrier"  // answered by the same, when all have said it
	Barrier0    = "barrier0" // the same, and process 0 alone is answered
	Ending      = "ending"   // an exit code in decimal, or nothing
	Abort       = "abort"    // a text
	ReplyFw     = "reply_fw" // a header and the reply to a client
)

// Types of frames to a program, besides Barrier and Barrier0.
const (
	NodeTab   = "initnodetab"
	PrintDone = "printdone"
	ScanfData = "scanf-data"
	Die       = "die" // a text; instead of the table
	ReqFw     = "req_fw"
)

const (
	typeSize   = 12
	headerSize = 4 + typeSize
	// MaxData is how many bytes of data a frame may have: those of a reply to a client.
	MaxData = HeaderSize + ccs.MaxReply
)

// Frame is one frame of a program. Data is the reader's: it is valid until the next one is read.
type Frame struct {
	Type string
	Data []byte
}

// Text is the data as text, which ends with a NUL or with the data.
func (f Frame) Text() string {
	text, _, _ := strings.Cut(string(f.Data), "\x00")
	return text
}

// Errors of a Reader.
var (
	ErrLength = errors.New("a frame with more data than any has")
	ErrType   = errors.New("a frame of no type")
)

// Append appends a frame, and room for the data of later calls of append: size is the size of all.
func Append(b []byte, kind string, size int, data ...byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	var padded [typeSize]byte
	copy(padded[:], kind)
	return append(append(b, padded[:]...), data...)
}

// Reply is a frame that says nothing but its type. Its data is one NUL: older programs read it as
// text.
func Reply(kind string) []byte { return Append(nil, kind, 1, 0) }

// Reader takes bytes of a program in whatever pieces, and gives frames.
type Reader struct{ buf []byte }

// Feed takes bytes.
func (r *Reader) Feed(b []byte) { r.buf = append(r.buf, b...) }

// Next returns the next frame; ok is false if it is not complete. After an error nothing follows.
func (r *Reader) Next() (f Frame, ok bool, err error) {
	if len(r.buf) < headerSize {
		return f, false, nil
	}
	size := binary.BigEndian.Uint32(r.buf)
	if size > MaxData {
		return f, false, ErrLength
	}
	name, ok := typeOf(r.buf[4:headerSize])
	if !ok {
		return f, false, ErrType
	}
	if len(r.buf) < headerSize+int(size) {
		return f, false, nil
	}
	f = Frame{name, r.buf[headerSize : headerSize+int(size) : headerSize+int(size)]}
	r.buf = r.buf[headerSize+int(size):]
	return f, true, nil
}

// typeOf reads a type: letters, digits, "-" and "_", padded with NUL.
func typeOf(b []byte) (string, bool) {
	name, _, _ := strings.Cut(string(b), "\x00")
	return name, name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}
