package charm

import (
	"bytes"
	"strconv"
	"strings"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

const (
	// maxChunk is the largest size of the text of one PrintText, in bytes. It equals wire.MaxData.
	maxChunk = 32 << 10
	// A program whose text is not taken is not read on.
	mostText  = 256 << 10
	leastText = 64 << 10
)

// text is what a program has printed and nobody has taken yet.
type text struct {
	streams  [3]stream
	size     int // bytes, of both streams
	held     bool
	draining bool // its process is gone: Drained is due
}

type stream struct {
	rest [][]byte
	busy bool // one was handed out, and not resumed
}

// print takes what a program prints.
func (s *Server) print(r *rank, f Frame) {
	to := uint8(1)
	if f.Type == PrintErr || f.Type == PrintErrSyn {
		to = 2
	}
	if s.job.Output.Merge {
		to = 1
	}
	if all := bytes.TrimRight(f.Data, "\x00"); r.prints && len(all) > 0 {
		r.text.streams[to].rest = append(r.text.streams[to].rest, bytes.Clone(all))
		r.text.size += len(all)
		s.pump(r, to)
	}
	if bytes.Contains(f.Data, []byte(unhandled)) {
		s.unhandled(r)
	}
	if f.Type == PrintSyn || f.Type == PrintErrSyn {
		s.send(r, Reply(PrintDone))
	}
	s.hold(r)
}

// pump hands out the next chunk of a stream: whole prints if they fit, and else whole lines, so
// that those of several ranks do not mix.
func (s *Server) pump(r *rank, to uint8) {
	st := &r.text.streams[to]
	if st.busy || len(st.rest) == 0 {
		return
	}
	chunk := st.rest[0]
	st.rest = st.rest[1:]
	for len(st.rest) > 0 && len(chunk)+len(st.rest[0]) <= maxChunk {
		chunk = append(chunk, st.rest[0]...)
		st.rest = st.rest[1:]
	}
	if len(chunk) > maxChunk {
		cut := bytes.LastIndexByte(chunk[:maxChunk], '\n') + 1
		if cut == 0 {
			cut = maxChunk
		}
		st.rest = append([][]byte{chunk[cut:]}, st.rest...)
		chunk = chunk[:cut:cut]
	}
	st.busy = true
	r.text.size -= len(chunk)
	s.do(PrintText{r.slot, to, chunk})
}

// hold stops reading a program, or goes on.
func (s *Server) hold(r *rank) {
	t := &r.text
	if held := t.size > mostText || t.held && t.size > leastText; held != t.held {
		t.held = held
		if r.conn != nil {
			s.do(Hold{r.conn.call, held})
		}
	}
}

// Resumed lets the next text of a stream be handed out.
func (s *Server) Resumed(slot job.Slot, to uint8) []Effect {
	r := s.local(slot)
	r.text.streams[to].busy = false
	s.pump(r, to)
	s.hold(r)
	s.drained(r)
	return s.done()
}

// Drained says that nothing comes of a rank's descriptors any more.
func (s *Server) Drained(slot job.Slot) []Effect {
	r := s.local(slot)
	r.text.draining = true
	s.drained(r)
	return s.done()
}

func (s *Server) drained(r *rank) {
	if t := &r.text; t.draining && t.size == 0 {
		t.draining = false
		s.do(Drained{r.slot})
	}
}

// input is standard input that a rank has not taken.
type input struct {
	text   []byte
	over   bool
	format string
	waits  bool // a scanf with this format
	warned bool
}

// mostScanned is how much one scanf may ask for before it gets what there is: the input that is on
// its way is bounded.
const mostScanned = 64 << 10

// Input takes standard input for a rank.
func (s *Server) Input(slot job.Slot, data []byte, over bool) []Effect {
	r := s.local(slot)
	r.input.text = append(r.input.text, data...)
	r.input.over = r.input.over || over
	s.scan(r)
	return s.done()
}

// scanf takes a program's request for input.
func (s *Server) scanf(r *rank, format string) {
	in := &r.input
	if reads := s.job.Stdin; reads.Mode == job.StdinNone || reads.Mode == job.StdinOne && reads.Rank != r.slot {
		in.over = true
		if !in.warned {
			in.warned = true
			s.warn("rank %d calls scanf and is not the one that reads ibrun's input; hint: --stdin %d", r.number,
				r.number)
		}
	}
	in.format, in.waits = format, true
	s.scan(r)
}

// scan answers a scanf, if there is enough.
func (s *Server) scan(r *rank) {
	in := &r.input
	if !in.waits {
		return
	}
	n, enough := Eaten(in.format, string(in.text), in.over || len(in.text) >= mostScanned)
	if !enough {
		return
	}
	in.waits = false
	answer := strings.Map(func(c rune) rune {
		if c == '\n' || c == '\r' {
			return ' '
		}
		return c
	}, string(in.text[:n]))
	in.text = in.text[n:]
	s.send(r, Append(nil, ScanfData, len(answer)+1, append([]byte(answer), 0)...))
	if n > 0 {
		s.do(InputRead{r.slot, n})
	}
}

// ending takes a program's leave. It waits until all have taken theirs. A process of several PEs
// says so for each, and counts once.
func (s *Server) ending(r *rank, code string) {
	if r.ended {
		return
	}
	if !r.running {
		s.refuse(r.conn, errBefore)
		return
	}
	own := uint8(0)
	if n, err := strconv.Atoi(strings.TrimSpace(code)); err == nil && n != 0 {
		own = job.AbortCode(n)
	}
	if r.resizes { // process 0 takes the leave of all
		if r.number == 0 {
			s.report(r, rankwire.Follow{Step: rankwire.FollowEnd, Code: own})
		}
		return
	}
	r.code = own
	s.end(r)
}

// end joins the others in their end.
func (s *Server) end(r *rank) {
	r.ended = true
	if !s.all(func(r *rank) bool { return r.ended }) {
		s.join(r, stepEnding)
		return
	}
	var parcels []rankwire.Parcel
	for i := range s.ranks { // the last exit code that is not 0 replaces the earlier ones
		if code := s.ranks[i].code; code != 0 {
			parcels = []rankwire.Parcel{{From: r.slot, To: rankwire.Everyone, Value: []byte{code}}}
		}
	}
	s.join(r, stepEnding, parcels...)
}

// allEnded ends a program. The job's code is that of the last node that has one.
func (s *Server) allEnded(r *rank, parcels rankwire.Parcels) {
	code, last := uint8(0), job.Slot(0)
	for p := range parcels.All() {
		if len(p.Value) == 1 && (code == 0 || p.From > last) {
			code, last = p.Value[0], p.From
		}
	}
	if r.code != 0 && code != 0 {
		r.code = code
	}
	r.released = true
	s.unanswered(r)
	s.report(r, rankwire.Finalize{})
	if r.resizes {
		s.send(r, Append(nil, ReallocAck, 0))
	}
	if r.conn != nil {
		r.conn.over = true
		s.do(HangUp{r.conn.call})
	}
}
