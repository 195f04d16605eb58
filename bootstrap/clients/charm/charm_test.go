package charm

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/ccs"
)

func TestInit(t *testing.T) {
	for _, g := range []Generation{Gen65, Gen67, Gen69} {
		in, err := ParseInit(testInitNode(g, 5))
		require.NoError(t, err, g)
		require.Equal(t, Init{g, 5, 4005}, in)
		_, err = ParseInit(testInitNode(g, 5)[1:])
		require.ErrorIs(t, err, ErrInit)
		b := testInitNode(g, 5)
		binary.BigEndian.PutUint32(b[len(b)-12:], 0)
		_, err = ParseInit(b)
		require.ErrorIs(t, err, ErrNoPort, "%v", g)
		binary.BigEndian.PutUint32(b[len(b)-12:], 1<<16)
		_, err = ParseInit(b)
		require.ErrorIs(t, err, ErrInit)
	}
}

// The bytes of a table are those that a program of each generation reads, as written down from its
// source: the length is exact, or the program exits.
func TestTable(t *testing.T) {
	p := Process{OnHost: 2, PEs: 3, Port: 0x1234, Addr: [4]byte{10, 1, 2, 3}}
	for g, want := range map[Generation]string{
		Gen65: "00000014" + hex.EncodeToString([]byte("initnodetab\x00")) + "00000001" +
			"00000003" + "00001234" + "00000000" + "0a010203",
		Gen67: "00000018" + hex.EncodeToString([]byte("initnodetab\x00")) + "00000001" +
			"00000002" + "00000003" + "00001234" + "00000000" + "0a010203",
		Gen69: "00000020" + hex.EncodeToString([]byte("initnodetab\x00")) + "00000001" + "00000007" +
			"00000007" + "00000002" + "00000003" + "00001234" + "00000000" + "0a010203",
	} {
		b := g.AppendEntry(g.TableHead(1, 7), 7, p)
		require.Equal(t, want, hex.EncodeToString(b), g)
	}
}

func TestReader(t *testing.T) {
	stream := append(Append(nil, Print, 6, []byte("hello\x00")...), Reply(Barrier)...)
	stream = append(stream, Append(nil, Ping, 0)...)
	for _, piece := range []int{1, 7, len(stream)} {
		var r Reader
		var got []string
		for b := stream; len(b) > 0; b = b[min(piece, len(b)):] {
			r.Feed(b[:min(piece, len(b))])
			for {
				f, ok, err := r.Next()
				require.NoError(t, err)
				if !ok {
					break
				}
				got = append(got, f.Type+" "+f.Text())
			}
		}
		require.Equal(t, []string{"print hello", "barrier ", "ping "}, got)
	}
	var r Reader
	r.Feed(Append(nil, Print, MaxData+1))
	_, _, err := r.Next()
	require.ErrorIs(t, err, ErrLength)
	for _, kind := range []string{"", "GET / HTTP", "\x01"} {
		r = Reader{}
		r.Feed(Append(nil, kind, 0))
		_, _, err = r.Next()
		require.ErrorIs(t, err, ErrType)
	}
}

// A request to a program has the header that Charm++ lays out, of 58 bytes, and its reply finds
// back.
func TestForward(t *testing.T) {
	require.Equal(t, 58, HeaderSize)
	q := ccs.Request{Handler: "hi", PE: 9, Data: []byte("data")}
	b := Forward(q, 77)
	require.Equal(t, "0000003e"+hex.EncodeToString([]byte("req_fw\x00\x00\x00\x00\x00\x00"))+
		"7f000001"+"00000000"+"00000000"+"0000"+hex.EncodeToString([]byte("hi"))+strings.Repeat("00", 30)+
		"00000009"+"0000004d"+"00000004"+hex.EncodeToString([]byte("data")), hex.EncodeToString(b))
	to, reply, err := ParseReply(b[16:])
	require.NoError(t, err)
	require.Equal(t, uint32(77), to)
	require.Equal(t, "data", string(reply))
	_, _, err = ParseReply(b[16:72])
	require.ErrorIs(t, err, ErrReply)
	flag := b[16+HeaderSize-4:][:4]
	copy(flag, []byte{0, 0, 0, 1}) // as Charm++ does: it is no length
	_, reply, err = ParseReply(b[16:])
	require.NoError(t, err)
	require.Equal(t, "data", string(reply))
	clear(flag)
	_, reply, err = ParseReply(b[16:])
	require.NoError(t, err)
	require.Empty(t, reply, "it gives none")

	several := ccs.Request{Handler: "hi", PE: -2, Data: []byte("\x00\x00\x00\x03\x00\x00\x00\x04data")}
	require.Equal(t, "00000004", hex.EncodeToString(Forward(several, 1)[16+HeaderSize-4:][:4]), "without the list")
}

// What is given to a program is what scanf(3) would have read.
func TestEaten(t *testing.T) {
	for _, c := range []struct {
		format, input, eaten string // "...": more input is needed
	}{
		{"%d", "12\n34\n", "12"}, {"%d", "  12\n", "  12"}, {"%d", "12", "..."}, {"%d", "\n\n", "..."},
		{"%d %d", "1\n2\n", "1\n2"}, {"%d %d", "1\n", "..."}, {"%d,%d", "1,2\n", "1,2"}, {"%d,%d", "1;2\n", "1"},
		{"%s", "word next\n", "word"}, {"%3s", "abcdef\n", "abc"}, {"%*d%s", "1 x\n", "1 x"}, {"%c", "\nx", "\n"},
		{"%2c", "xyz", "xy"}, {"%lf", "-1.5e+3\n", "-1.5e+3"}, {"%[^\n]", "a line\nnext\n", "a line"},
		{"%[a-c]", "abcd\n", "abc"}, {"%[]x]", "]x]y\n", "]x]"}, {"%d%n", "7\n", "7"}, {"50%%", "50%\n", "50%"},
		{"%d\n", "7\n", "..."}, {"%d\n", "7\nx", "7\n"}, {"%d", "no\n", ""}, {"%", "%\n", "%"}, {"%l", "1\n", ""},
		{"%[", "x\n", ""}, {"", "x\n", ""}, {"%d", "7\r\n", "7"},
	} {
		n, enough := Eaten(c.format, c.input, false)
		got := "..."
		if enough {
			got = c.input[:n]
		}
		require.Equal(t, c.eaten, got, "%q of %q", c.format, c.input)
		n, enough = Eaten(c.format, c.input, true)
		require.True(t, enough)
		if c.eaten != "..." {
			require.Equal(t, c.eaten, c.input[:n])
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(append(Append(nil, Print, 6, []byte("hello\x00")...), Reply(Barrier)...), "%d %s", "12 x")
	f.Add(Forward(ccs.Request{Handler: "hi", PE: 3, Data: []byte("x")}, 1), "%[a-", "")
	f.Fuzz(func(t *testing.T, stream []byte, format, input string) {
		var r Reader
		r.Feed(stream)
		var again []byte
		for {
			f, ok, err := r.Next()
			if !ok || err != nil {
				break
			}
			if len(f.Type) < typeSize {
				again = Append(again, f.Type, len(f.Data), f.Data...)
			}
			_, _ = ParseInit(f.Data)
			_, _, _ = ParseReply(f.Data)
			_, _ = ccs.ParseCensus(f.Data)
		}
		require.LessOrEqual(t, len(again), len(stream))
		for _, over := range []bool{false, true} {
			if n, enough := Eaten(format, input, over); n < 0 || n > len(input) || over && !enough {
				t.Fatalf("%d of %d bytes", n, len(input))
			}
		}
	})
}
