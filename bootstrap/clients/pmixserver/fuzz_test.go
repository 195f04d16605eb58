package pmixserver

import (
	"testing"

	"ibrun/bootstrap/clients/pmix"
	"ibrun/bootstrap/clients/pmix/pmixtest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/test/fuzzed"
)

// field is a field of some kind, mostly one that makes sense.
func field(s *fuzzed.Input, w *world) []byte {
	ns := Namespace(w.job)
	key := string(rune('a' + s.Byte()%4))
	switch s.Byte() % 12 {
	case 0:
		return pmixtest.U32(uint32(s.Byte() % 6))
	case 1:
		return pmixtest.Text(ns)
	case 2:
		return pmixtest.Text(key)
	case 3:
		return pmixtest.Procs(ns, uint32(s.Byte()%5), uint32(s.Byte()%5))
	case 4:
		return pmixtest.Procs(ns, pmixtest.Wildcard)
	case 5:
		return pmixtest.AllProcs(pmixtest.Procs(ns, uint32(s.Byte()%4)), pmixtest.Procs("other", 0))
	case 6:
		return pmixtest.Attrs(word(key, "v"), pmixtest.Is("pmix.wait"))
	case 7:
		return pmixtest.Attrs(pmixtest.Is("pmix.grp.actxid"), word("pmix.reg.cleanup", "/tmp/"+key))
	case 8:
		return pmixtest.Keys(key, key)
	case 9:
		return pmixtest.Values(pmix.Scope(s.Byte()%4), word(key, "v"))
	case 10:
		return []byte{s.Byte(), s.Byte()}
	default:
		return pmixtest.Attrs()
	}
}

// FuzzServer lets ranks of two nodes say anything, and their agents tell them anything. Whatever it
// is, the clients that keep to the protocol can be served after it: a program that joins gets its
// job, and its values.
func FuzzServer(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x02\x02\x00\x09\x02\x00\x03\x03\x00\x04\x00\x0b"))
	f.Add([]byte("\x01\x00\x00\x01\x01\x00\x00\x03\x02\x04\x00\x0b\x00\x03\x02\x00\x04\x00\x0b"))
	f.Add([]byte("\x00\x00\x00\x02\x0a\x02\x05\x00\x00\x0b\x00\x18\x03\x02\x02\x04\x07\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = b[:min(len(b), 400)]
		s := (*fuzzed.Input)(&b)
		w := newWorld(t, 2, 2)
		var open []*client
		for len(*s) > 0 {
			switch what := s.Byte() % 8; {
			case what == 0 || len(open) == 0:
				rank := uint32(s.Byte() % 4)
				c := w.connect(w.nodeOf(rank), Namespace(w.job), rank)
				c.hello()
				open = append(open, c)
			case what < 5:
				c := open[int(s.Byte())%len(open)]
				command := s.Byte() % 30
				var fields [][]byte
				for range s.Byte() % 5 {
					fields = append(fields, field(s, w))
				}
				c.send(c.Request(command, fields...))
			case what == 5:
				open[int(s.Byte())%len(open)].close()
			case what == 6:
				w.deliver(job.Slot(s.Byte()%4), rankwire.Name{ID: uint32(s.Byte()), Port: "p", Done: true})
				w.deliver(job.Slot(s.Byte()%4), rankwire.JobSpawned{Namespace: "n"})
				w.drain()
			default:
				open[int(s.Byte())%len(open)].send([]byte{s.Byte(), s.Byte(), s.Byte()})
			}
		}
		for i := range w.servers {
			w.obey(i, w.servers[i].Exited(job.Slot(2*i)))
			w.drain()
		}
		last := w.connect(0, Namespace(w.job), 1)
		if last.hello().Status != pmix.Done {
			return // an earlier program left without a word
		}
		last.ask(pmixtest.GetJob)
		if last.commit(pmix.ScopeLocal, word("mine", "1")).Status != pmix.Done || !found(last) {
			t.Fatal("a rank does not find its own value")
		}
	})
}

func found(c *client) bool {
	r, ok := c.get(c.Rank, "mine")()
	return ok && r.Found("mine", "1")
}
