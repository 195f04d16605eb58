package pmix

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// traced is one message of a recorded conversation. A trace has the length of a message, up to 40
// of its bytes, and what it says.
type traced struct {
	client bool
	tag    uint32
	what   string // the command's name in the trace
	size   int
	prefix []byte
	lines  []string // without indentation
}

// trace is a recorded conversation.
type trace struct {
	name     string
	header   []byte // of the handshake
	client   Join
	stray    []byte // behind the handshake
	messages []traced
}

var (
	traceHeader = regexp.MustCompile(`^> header ([0-9a-f]{32}):`)
	traceClient = regexp.MustCompile(`security native, credential ([0-9a-f]+), kind 0, namespace (\S+) rank (\d+), ` +
		`version (\S+), dialect (\S+), buffers 1, gds (\S+), left ([0-9a-f]*)$`)
	traceMessage = regexp.MustCompile(`^([<>]) tag (\d+) \(?(\w+)\)? (\d+) bytes ([0-9a-f]+)(?:\.\.)?$`)
	traceReply   = regexp.MustCompile(`^< ([0-9a-f]{8})$`)
)

// unknown stands for a byte that a trace does not show. No recorded byte has this value.
const unknown = 0x9e

// traces reads all recorded conversations.
func traces(t testing.TB) (all []trace) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.Len(t, files, 12)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		tr := trace{name: strings.TrimSuffix(filepath.Base(name), ".txt")}
		for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			tr.line(t, line)
		}
		require.NotEmpty(t, tr.client.Version, name)
		require.Greater(t, len(tr.messages), 10, name)
		all = append(all, tr)
	}
	return all
}

func (tr *trace) line(t testing.TB, line string) {
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		require.NoError(t, err)
		return b
	}
	if m := traceHeader.FindStringSubmatch(line); m != nil {
		tr.header = unhex(m[1])
	} else if m := traceClient.FindStringSubmatch(line); m != nil {
		id := unhex(m[1])
		tr.client = Join{
			Proc: Proc{m[2], Rank(number(m[3]))}, Version: m[4], Dialect: m[5], Store: m[6],
			UID: binary.LittleEndian.Uint32(id), GID: binary.LittleEndian.Uint32(id[4:]),
		}
		tr.stray = unhex(m[7])
	} else if m := traceMessage.FindStringSubmatch(line); m != nil {
		s := traced{client: m[1] == ">", tag: uint32(number(m[2])), what: m[3], size: number(m[4]),
			prefix: unhex(m[5])}
		require.NotContains(t, s.prefix, byte(unknown))
		tr.messages = append(tr.messages, s)
	} else if !traceReply.MatchString(line) {
		last := &tr.messages[len(tr.messages)-1]
		if text, ok := strings.CutPrefix(line, "    "); ok {
			last.lines = append(last.lines, text)
		} else { // of a text of several lines
			last.lines[len(last.lines)-1] += "\n" + line
		}
	}
}

// hello is the client's first message.
func (tr *trace) hello() []byte {
	c := tr.client
	b := append([]byte("native\x00"), 0, 0, 0, 8)
	b = binary.LittleEndian.AppendUint32(b, c.UID)
	b = binary.LittleEndian.AppendUint32(b, c.GID)
	b = append(append(b, kindRank), c.Namespace+"\x00"...)
	b = binary.BigEndian.AppendUint32(b, uint32(c.Rank))
	b = append(b, c.Version+"\x00"+c.Dialect+"\x00\x01"+c.Store+"\x00"...)
	return append(append([]byte{}, tr.header...), append(b, tr.stray...)...)
}

var (
	textAttr  = regexp.MustCompile(`(?s)^([^=]+)=(\w+):(.*?)(?: flags (\d+))?$`)
	textPair  = regexp.MustCompile(`^kval (\S+) \((\w+)\) (.*)$`)
	textPlace = regexp.MustCompile(`^kval pmix.pblob \(bytes, (\d+) bytes\): rank (\d+)$`)
	textFound = regexp.MustCompile(`^from (\S+) (\d+) (\S+) = \('(\w+)', (.*)\)$`)
	textBytes = regexp.MustCompile(`(\d+) bytes ([0-9a-f]*)`)
	quoted    = regexp.MustCompile(`'([^']*)'`)
)

// valueFrom makes a value of its text. Where the trace shows the first bytes only, the others are
// unknown.
func valueFrom(t testing.TB, kind, text string) Value {
	number, _ := strconv.ParseInt(text, 10, 64)
	of := func(code Type, write func(w *writer)) Value { return valueOf(code, write) }
	switch kind {
	case "string":
		return TextValue(text)
	case "bytes":
		m := textBytes.FindStringSubmatch(text)
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		b := bytes.Repeat([]byte{unknown}, n)
		_, err = hex.Decode(b, []byte(m[2]))
		require.NoError(t, err)
		return BytesValue(b)
	case "bool":
		return BoolValue(number != 0)
	case "int":
		return IntValue(int32(number))
	case "int32":
		return of(TypeInt32, func(w *writer) { w.i32(int32(number)) })
	case "uint16":
		return Uint16Value(uint16(number))
	case "uint32":
		return Uint32Value(uint32(number))
	case "uint64":
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return of(TypeUint64, func(w *writer) { w.u64(n) })
	case "double":
		return of(TypeDouble, func(w *writer) { w.text(text) })
	case "rank":
		return RankValue(Rank(number))
	case "range":
		return of(TypeRange, func(w *writer) { w.octet(byte(number)) })
	case "persist":
		return of(TypePersistence, func(w *writer) { w.octet(byte(number)) })
	case "array":
		var attrs []Attr
		for _, m := range quoted.FindAllStringSubmatch(text, -1)[1:] {
			attrs = append(attrs, attrFrom(t, m[1]))
		}
		return AttrsValue(attrs...)
	}
	require.Fail(t, "unknown", "%s: %s", kind, text)
	return Value{}
}

func attrFrom(t testing.TB, text string) Attr {
	m := textAttr.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	flags, _ := strconv.Atoi(m[4])
	return Attr{m[1], uint32(flags), valueFrom(t, m[2], m[3])}
}

// select lists what follows a word at the begin of lines.
func (s traced) after(word string) (rest []string) {
	for _, line := range s.lines {
		if text, ok := strings.CutPrefix(line, word+" "); ok {
			rest = append(rest, text)
		}
	}
	return rest
}

func (s traced) attrs(t testing.TB) (attrs []Attr) {
	for _, text := range s.after("info") {
		attrs = append(attrs, attrFrom(t, text))
	}
	return attrs
}

func procFrom(t testing.TB, text string) Proc {
	var p Proc
	var rank int64
	_, err := fmt.Sscanf(strings.Replace(text, " rank ", " ", 1), "%s %d", &p.Namespace, &rank)
	require.NoError(t, err, text)
	p.Rank = Rank(rank)
	return p
}

func (s traced) procs(t testing.TB) (procs []Proc) {
	for _, text := range s.after("proc") {
		procs = append(procs, procFrom(t, text))
	}
	return procs
}

// pairsFrom writes the pairs of some lines, up to the first line that is none, and returns the
// others.
func pairsFrom(t testing.TB, w *writer, lines []string) (rest []string) {
	for len(lines) > 0 {
		line := strings.TrimSpace(lines[0])
		if m := textPlace.FindStringSubmatch(line); m != nil {
			place := writer{enc: w.enc}
			place.count(1)
			rank, _ := strconv.Atoi(m[2])
			place.u32(uint32(rank))
			n := 1
			for n < len(lines) && strings.HasPrefix(lines[n], "    ") {
				n++
			}
			require.Empty(t, pairsFrom(t, &place, lines[1:n]))
			require.Equal(t, m[1], strconv.Itoa(len(place.b)))
			w.pair("pmix.pblob", BytesValue(place.b))
			lines = lines[n:]
			continue
		}
		m := textPair.FindStringSubmatch(line)
		if m == nil {
			break
		}
		w.pair(m[1], valueFrom(t, m[2], m[3]))
		lines = lines[1:]
	}
	return lines
}
