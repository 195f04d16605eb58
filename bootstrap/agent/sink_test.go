package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// written returns the two outputs and the events of a Sink after the given writes.
func written(style Style, writes ...printed) (stdout, stderr string, events []any) {
	var out, err bytes.Buffer
	s := NewSink(&out, &err, style)
	for _, w := range writes {
		s.put(w)
	}
	s.closed = true
	s.run(recorder(func(ev core.Event) { events = append(events, ev) }))
	return out.String(), err.String(), events
}

func write(rank job.Rank, stream uint8, text string) printed {
	return printed{source{rank, stream}, []byte(text)}
}

// What is not labelled passes as it is, each chunk at once, and is counted.
func TestSinkPasses(t *testing.T) {
	out, err, events := written(Style{}, write(0, 1, "a\x1b["), write(1, 2, "e"), write(0, 1, "b\n"))
	require.Equal(t, "a\x1b[b\n", out)
	require.Equal(t, "e", err)
	require.Equal(t, []any{core.Wrote{N: 3}, core.Wrote{N: 1}, core.Wrote{N: 2}}, events)
}

// Labelled lines are whole: what two ranks print at the same time is not mixed. Agents
// send whole lines; what they send of another is shown, as a prompt is, goes on without a
// label, and is ended when another rank prints there, or at last.
func TestSinkLabels(t *testing.T) {
	out, err, events := written(Style{Label: true},
		write(7, 1, "one\n\n"), write(2, 1, "name? "), write(2, 1, "again? "), write(7, 2, "x"),
		write(2, 1, "two\nhal"),
		write(7, 1, "three\n"), write(2, 1, "f\n"), write(7, 1, "rest"))
	require.Equal(t, "[7] one\n[7] \n[2] name? again? two\n[2] hal\n[7] three\n[2] f\n[7] rest\n", out)
	require.Equal(t, "[7] x\n", err)
	require.Len(t, events, 8)
}

// full returns a chunk of maximum size within a line.
func full(rank job.Rank, with string) printed {
	return write(rank, 1, strings.Repeat(with, wire.MaxData))
}

// A line of several chunks is whole, whoever prints between them, up to a megabyte. A
// longer one comes in pieces, which are one line if nobody prints between them.
func TestSinkLongLine(t *testing.T) {
	a, b := strings.Repeat("a", wire.MaxData), strings.Repeat("b", wire.MaxData)
	out, _, _ := written(Style{Label: true}, full(0, "a"), full(1, "b"), full(0, "a"), write(2, 1, "c\n"),
		write(1, 1, "y\n"), write(0, 1, "x\n"), full(1, "b"))
	require.Equal(t, "[2] c\n[1] "+b+"y\n[0] "+a+a+"x\n[1] "+b+"\n", out)

	var writes []printed
	for range longestLine/wire.MaxData + 1 {
		writes = append(writes, full(0, "a"))
	}
	long := strings.Repeat("a", longestLine+wire.MaxData)
	out, _, _ = written(Style{Label: true}, append(writes, write(0, 1, "x\n"))...)
	require.Equal(t, "[0] "+long+"x\n", out)
	out, _, _ = written(Style{Label: true}, append(writes, write(1, 1, "b\n"), write(0, 1, "x\n"))...)
	require.Equal(t, "[0] "+long+"\n[1] b\n[0] x\n", out)
}

// What is held is bounded over all ranks, and nothing of it is lost.
func TestSinkHoldsLittle(t *testing.T) {
	const ranks = 300
	var out bytes.Buffer
	s := NewSink(&out, io.Discard, Style{Label: true})
	most := 0
	for range 3 {
		for r := range uint32(ranks) {
			s.write(full(job.Rank(r), "x"), recorder(func(core.Event) {}))
			most = max(most, s.buffered)
		}
	}
	s.flush()
	require.Equal(t, maxBuffered, most)
	require.Zero(t, s.buffered)
	require.Empty(t, s.parts)
	require.Equal(t, 3*ranks*wire.MaxData, strings.Count(out.String(), "x"))
}

// A terminal is shown no control bytes that could command it, one-byte and
// two-byte ones, even if a rank writes the two apart; text and progress bars stay.
func TestSinkEscapes(t *testing.T) {
	style := Style{Escape: [3]bool{1: true}}
	for _, c := range []struct{ in, want string }{
		{"plain, ümlaut €\t\r\b\n", "plain, ümlaut €\t\r\b\n"},
		{"\x1b[2J\x00\x7f", "\\x1b[2J\\x00\\x7f"},
		{"\u009b2J", "\\u009b2J"},
		{"à\x9b2J", "à\\x9b2J"}, // not of UTF-8: 8-bit terminals obey it
		{"Â\u00a0", "Â\u00a0"},
		{"\u202etxt.exe", "\\u202etxt.exe"},
		{"\xe2\x82", "\\xe2\\x82"}, // half a character, at the end
	} {
		out, _, _ := written(style, write(0, 1, c.in))
		require.Equal(t, c.want, out)
		var apart []printed
		for i := range len(c.in) {
			apart = append(apart, write(0, 1, c.in[i:i+1]))
		}
		out, _, _ = written(style, apart...)
		require.Equal(t, c.want, out, "byte by byte")
	}
	out, _, _ := written(Style{Label: true, Escape: style.Escape}, write(0, 1, "\x1b]0;title\x07"))
	require.Equal(t, "[0] \\x1b]0;title\\x07\n", out)
	out, _, _ = written(style, write(0, 1, "\xd0"), write(1, 1, "\x9b2J"), write(0, 1, "\x9b"))
	require.Equal(t, "\\x9b2JЛ", out, "a rank does not end what another one has begun")
}

// failing is a writer that fails after some writes.
type failing struct {
	left int
	with error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.with
	}
	return len(p), nil
}

// An output that fails is said once, with whether somebody hung up; what comes
// after it is dropped, and the sink ends all the same.
func TestSinkFails(t *testing.T) {
	for _, c := range []struct {
		with error
		pipe bool
	}{{fmt.Errorf("write |1: %w", syscall.EPIPE), true}, {errors.New("no space left on device"), false}} {
		s := NewSink(&failing{1, c.with}, io.Discard, Style{})
		for range 4 {
			s.put(write(0, 1, "abc"))
		}
		var events []any
		s.closed = true
		s.run(recorder(func(ev core.Event) { events = append(events, ev) }))
		require.Equal(t, []any{core.Wrote{N: 3}, core.SinkFailed{Pipe: c.pipe, Cause: c.with.Error()}}, events)
	}
}
