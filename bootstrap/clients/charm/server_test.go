package charm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// last is what has happened since the trace had so many lines.
func (w *world) since(n int) string { return strings.Join(w.trace[n:], "\n") }

// Each rank of a node joins the table, and one of them brings the node's part: an edge of the tree
// carries one message each way, and no more parcels than there are nodes.
func TestOnePartOfANode(t *testing.T) {
	w := newWorld(3, 4, nil).start(Gen69)
	require.Len(t, w.joined[1], 3)
	require.Equal(t, 12, strings.Count(w.since(0), "<- initnodetab"))
	require.Len(t, w.servers[0].table.pes, 12)
	require.Equal(t, []uint32{1, 2, 3, 4}, w.servers[2].table.pes[8:])
}

// The exit code of a job is that of its last process that has one; those of all are as they said,
// and what their programs end with says nothing.
func TestEndingCodes(t *testing.T) {
	w := newWorld(2, 2, nil).start(Gen69)
	for slot, code := range []string{"0", "5", "7", "0"} {
		_, ended := w.of(job.Slot(slot)).Code(job.Slot(slot))
		require.False(t, ended)
		require.True(t, w.of(job.Slot(slot)).Awaits(job.Slot(slot)))
		w.sends(job.Slot(slot), Ending, append([]byte(code), 0)...)
		require.False(t, w.of(job.Slot(slot)).Awaits(job.Slot(slot)))
	}
	for slot, want := range []uint8{0, 7, 7, 0} {
		code, ended := w.of(job.Slot(slot)).Code(job.Slot(slot))
		require.True(t, ended)
		require.Equal(t, want, code, slot)
	}
	require.Equal(t, 4, strings.Count(w.since(0), "says Finalize"))
	require.Equal(t, 4, strings.Count(w.since(0), "hung up"))
	n := len(w.trace)
	w.obey(w.servers[0], w.servers[0].Exited(0, true))
	require.Empty(t, w.trace[n:])
	for code, want := range map[string]uint8{"256": 1, "-1": 255, "": 0, "x": 0} {
		w := newWorld(1, 1, nil).start(Gen65)
		w.sends(0, Ending, []byte(code)...)
		got, _ := w.servers[0].Code(0)
		require.Equal(t, want, got, code)
	}
}

// A program that ends by itself while others wait for it ends the job.
func TestEndsWithoutEnding(t *testing.T) {
	w := newWorld(1, 2, nil).start(Gen69)
	n := len(w.trace)
	w.obey(w.servers[0], w.servers[0].Exited(1, false))
	require.Empty(t, w.trace[n:], "its status says enough")
	w.obey(w.servers[0], w.servers[0].Exited(0, true))
	require.Contains(t, w.since(n), "its program ended without CkExit")
}

// Who is none of ours, or sends what no program does, is hung up on, and the others go on.
func TestStrangers(t *testing.T) {
	for _, c := range []struct{ name, kind, data, warns string }{
		{"no program", "GET / HTTP/1", "", ""},
		{"another word", Print, "x", ""},
		{"a process number that the job does not have", InitNode, string(testInitNode(Gen69, 9)), ""},
		{"a process of another node", InitNode, string(testInitNode(Gen69, 3)), ""},
		{"no known version", InitNode, strings.Repeat("\x00", 28), ""},
		{"a process that is already connected", InitNode, string(testInitNode(Gen69, 0)), ""},
	} {
		w := newWorld(2, 2, nil)
		w.sends(0, InitNode, testInitNode(Gen69, 0)...)
		n := len(w.trace)
		s := w.servers[0]
		w.obey(s, s.Receive(77, Append(nil, c.kind, len(c.data), []byte(c.data)...)))
		w.drain()
		require.Contains(t, w.since(n), "76 hung up", c.name)
		require.Nil(t, s.Receive(77, []byte("more")), "it may not be heard again")
		for slot := job.Slot(1); slot < 4; slot++ {
			w.sends(slot, InitNode, testInitNode(Gen69, uint32(slot))...)
		}
		require.Equal(t, 4, strings.Count(w.since(n), "<- initnodetab"), c.name)
	}
	w := newWorld(1, 1, nil).start(Gen69)
	w.sends(0, "GET / HTTP/1")
	require.Contains(t, w.since(0), "Warn", "rank 0 did it")
	for _, early := range []string{Barrier, Barrier0, Ending} {
		w := newWorld(1, 2, nil)
		w.sends(0, InitNode, testInitNode(Gen69, 0)...)
		w.sends(0, early)
		require.Contains(t, w.since(0), "hung up", early)
	}
}

// Programs of different versions, or without a network, are told to die.
func TestDie(t *testing.T) {
	w := newWorld(1, 2, nil)
	w.sends(0, InitNode, testInitNode(Gen69, 0)...)
	w.sends(1, InitNode, testInitNode(Gen67, 1)...)
	require.Equal(t, 2, strings.Count(w.since(0), "<- die "))
	require.Contains(t, w.since(0), errVersions.Error())
	w = newWorld(2, 1, nil)
	w.sends(0, InitNode, testInitNode(Gen69, 0)...)
	w.sends(1, InitNode, testInitNode(Gen65, 1)...)
	require.Equal(t, 2, strings.Count(w.since(0), "<- die "))
	w = newWorld(1, 1, nil)
	portless := testInitNode(Gen69, 0)
	clear(portless[len(portless)-12 : len(portless)-8])
	w.sends(0, InitNode, portless...)
	require.Contains(t, w.since(0), ErrNoPort.Error())
	w = newWorld(1, 2, nil).start(Gen69)
	w.sends(0, Barrier)
	w.sends(1, Barrier0)
	require.Contains(t, w.since(0), "in vain: they disagree")
}

// Parts of a table that cannot be are refused: they are other agents' words.
func TestLyingParts(t *testing.T) {
	l := job.NewLayout([]job.Share{{Nodes: 2, Ranks: 2}})
	part := func(from job.Slot, b string) rankwire.Parcel {
		return rankwire.Parcel{From: from, To: rankwire.Everyone, Value: []byte(b)}
	}
	good := "\x03\x0a\x00\x00\x01\x01\x00\x09\x01\x00\x09"
	for name, parts := range map[string][]rankwire.Parcel{
		"none": nil, "one": {part(0, good)}, "twice": {part(0, good), part(1, good)},
		"short":      {part(0, good), part(2, good[:len(good)-1])},
		"no PE":      {part(0, good), part(2, good[:5]+"\x00\x00\x01\x01\x00\x01")},
		"no version": {part(0, good), part(2, "\x00"+good[1:])}, "empty": {part(0, good), part(2, "")},
	} {
		var tab table
		require.Error(t, tab.fill(l, rankwire.NewParcels(parts...)), name)
	}
	var tab table
	require.NoError(t, tab.fill(l, rankwire.NewParcels(part(0, good), part(3, good))))
	require.Len(t, tab.entries, 4*24)
}

// Text is handed out a chunk at a time, whole and in order; a program that prints faster than it is
// taken is not read meanwhile, and the end of a rank waits for its text.
func TestText(t *testing.T) {
	w := newWorld(1, 1, nil).start(Gen69)
	s := w.servers[0]
	var want, got bytes.Buffer
	var effects []Effect
	for i := range 100 {
		line := fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("x", 5000))
		want.Write(line)
		effects = append(effects, s.Receive(1, Append(nil, Print, len(line)+1, append(line, 0)...))...)
	}
	held := 0
	effects = append(effects, s.Drained(0)...)
	drained, resumed := false, false
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		switch e := e.(type) {
		case PrintText:
			require.False(t, drained)
			require.LessOrEqual(t, len(e.Text), maxChunk)
			got.Write(e.Text)
			effects = append(effects, s.Resumed(0, e.Stream)...)
		case Hold:
			if held++; !e.Held {
				resumed = true
			}
		case Drained:
			drained = true
		}
	}
	require.True(t, drained)
	require.Equal(t, want.String(), got.String())
	require.Equal(t, 2, held)
	require.True(t, resumed)
}

// What a job prints to files comes by descriptors, and printsyn is answered all the same. Standard
// error goes to standard output if it was asked for.
func TestDescriptors(t *testing.T) {
	w := newWorld(1, 1, func(j *job.Job) { j.Output.Merge = true })
	w.servers[0].Expect(0, 1, false, false)
	w.start(Gen69)
	n := len(w.trace)
	w.sends(0, PrintSyn, []byte("x\x00")...)
	require.NotContains(t, w.since(0), "muted")
	require.NotContains(t, w.since(n), "prints 1")
	require.Contains(t, w.since(n), "<- printdone")
	require.False(t, w.servers[0].Prints(0))

	w = newWorld(1, 1, func(j *job.Job) { j.Output.Merge = true }).start(Gen69)
	w.sends(0, PrintErr, []byte("x\x00")...)
	require.Contains(t, w.since(0), `0 prints 1 "x"`)
}

// A scanf waits for as much input as it eats; one that reads no input is told that there is none,
// and the user why.
func TestScanf(t *testing.T) {
	w := newWorld(1, 2, nil).start(Gen69)
	s := w.servers[0]
	n := len(w.trace)
	w.sends(0, Scanf, []byte("%d %s\x00")...)
	w.obey(s, s.Input(0, []byte("12\n"), false))
	require.NotContains(t, w.since(n), "scanf-data")
	w.obey(s, s.Input(0, []byte("abc\nrest"), false))
	require.Contains(t, w.since(n), fmt.Sprintf("0 <- scanf-data %x", "12 abc\x00"))
	require.Contains(t, w.since(n), "N:6")
	w.sends(0, Scanf, []byte(" %[^\n]\x00")...)
	w.obey(s, s.Input(0, nil, true))
	require.Contains(t, w.since(n), fmt.Sprintf("0 <- scanf-data %x", " rest\x00"))
	n = len(w.trace)
	w.sends(1, Scanf, []byte("%d\x00")...)
	w.sends(1, Scanf, []byte("%d\x00")...)
	require.Equal(t, 1, strings.Count(w.since(n), "Warn"))
	require.Equal(t, 2, strings.Count(w.since(n), "1 <- scanf-data 00"))
	w = newWorld(1, 1, nil).start(Gen69)
	w.sends(0, Scanf, []byte("%s\x00")...)
	w.obey(w.servers[0], w.servers[0].Input(0, make([]byte, mostScanned), false))
	require.Contains(t, w.since(0), "scanf-data", "more is not sent")
}

// The processes of a job get the table one after the other. A request for one that does not have it
// yet comes after it, or is answered when the process ends before.
func TestRequestsBeforeTheTable(t *testing.T) {
	w := newWorld(1, 2, nil)
	s := w.servers[0]
	w.muting = func(slot job.Slot) {
		w.obey(s, s.Request(7+uint32(slot), slot, ccs.Request{Handler: "hi"}))
		if slot == 1 {
			w.obey(s, s.Exited(1, false))
		}
	}
	w.start(Gen69)
	trace := w.since(0)
	require.Regexp(t, `(?s)0 <- initnodetab.*0 <- req_fw`, trace)
	require.Equal(t, 1, strings.Count(trace, "req_fw"))
	require.Contains(t, trace, "{ID:8 Rank:1 Trouble:the process of this PE has ended")
	n := len(w.trace)
	w.sends(0, ReplyFw, Forward(ccs.Request{Handler: "hi"}, 1)[16:]...)
	require.Contains(t, w.since(n), "{ID:7 Rank:0 Trouble: ")
}

// A request has one answer: the reply, or why there is none.
func TestRequests(t *testing.T) {
	w := newWorld(1, 2, nil)
	s := w.servers[0]
	ask := func(id uint32, slot job.Slot, q ccs.Request) string {
		n := len(w.trace)
		w.obey(s, s.Request(id, slot, q))
		return w.since(n)
	}
	hi := ccs.Request{Handler: "hi"}
	require.Contains(t, ask(1, 0, hi), "not started yet")
	require.Contains(t, ask(1, 5, hi), "no process has this PE")
	w.start(Gen69)
	require.Contains(t, ask(2, 0, ccs.Request{Handler: ccs.InfoHandler}), "Data:[0 0 0 2 0 0 0 1 0 0 0 2]")
	require.Contains(t, ask(3, 0, ccs.Request{Handler: "fetch stdio"}), "ctl attach")
	require.Contains(t, ask(4, 0, ccs.Request{}), "31 bytes")
	require.Contains(t, ask(5, 0, hi), "0 <- req_fw")
	require.Contains(t, ask(6, 1, hi), "1 <- req_fw")
	n := len(w.trace)
	w.sends(1, ReplyFw, Forward(hi, 1)[16:]...)
	require.NotContains(t, w.since(n), "Replied", "it is another's to answer")
	w.sends(0, ReplyFw, Forward(hi, 1)[16:]...)
	w.sends(0, ReplyFw, Forward(hi, 1)[16:]...)
	require.Equal(t, 1, strings.Count(w.since(n), "Replied"))
	w.obey(s, s.Exited(1, false))
	require.Contains(t, w.since(n), "{ID:6 Rank:1 Trouble:the process of this PE has ended")
	for id := range uint32(mostOpen) {
		ask(id, 0, hi)
	}
	require.Contains(t, ask(9, 0, hi), "too many requests")
	w.obey(s, s.Closed(1))
	require.Contains(t, ask(9, 0, hi), "has ended")
	w.start(Gen69)
	other := newWorld(1, 1, nil)
	other.servers[0] = NewServer(other.job, job.Node{Ranks: 1}, 0)
	require.Contains(t, fmt.Sprint(other.servers[0].Request(1, 0, hi)), "no program of Charm++")
}

func TestPEs(t *testing.T) {
	for line, want := range map[string]uint32{"a": 1, "a +ppn 4": 4, "a x ++ppn 2 +setcpuaffinity": 2} {
		n, err := PEs(strings.Fields(line))
		require.NoError(t, err)
		require.Equal(t, want, n, line)
	}
	for _, line := range []string{"a +ppn", "a +ppn 0", "a +ppn x", "a +ppn 70000", "a +ppn -1"} {
		_, err := PEs(strings.Fields(line))
		require.ErrorContains(t, err, "number of PEs", line)
	}
}

// FuzzServer lets processes of two nodes say anything, and clients ask anything. Whatever it is,
// each rank's text comes a chunk at a time, and it joins collectives in turn.
func FuzzServer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x01\x00\x02\x00\x03\x00\x00\x01\x01\x01\x02\x01\x03\x01\x00\x04\x01\x04"))
	f.Add([]byte("\x00\x00\x01\x00\x02\x00\x03\x00\x00\x02\x00\x03\x00\x05\x00\x06\x01\x07\x01\x08\x02\x09"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := newWorld(2, 2, nil)
		kinds := []string{
			InitNode, Barrier, Print, PrintErrSyn, Ending, Scanf, Barrier0,
			ReplyFw, Abort, Ping, "GET / HTTP/1",
		}
		for ; len(b) >= 2; b = b[2:] {
			slot, s := job.Slot(b[0]%4), w.of(job.Slot(b[0]%4))
			what := int(b[1]) % 16
			switch {
			case what < len(kinds) && what > 0:
				w.sends(slot, kinds[what], b[:min(len(b), int(b[0]))]...)
			case what == 0:
				w.sends(slot, InitNode, testInitNode(Generation(1+b[0]/64%3), uint32(slot))...)
			case what == 11:
				w.obey(s, s.Request(uint32(b[0]), slot, ccs.Request{Handler: "h", Data: b}))
			case what == 12:
				w.obey(s, s.Input(slot, b, b[0] > 200))
			case what == 13:
				w.obey(s, s.Exited(slot, b[0] > 100))
			case what == 14:
				w.obey(s, s.Closed(call(slot)))
			default:
				w.obey(s, s.Receive(call(slot), b))
			}
			w.drain()
		}
		require.Empty(t, w.faults)
	})
}
