package cli

import (
	"slices"

	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/plain"
)

// HostList is hosts as they were named: in place, or in files.
type HostList struct {
	Entries []hostlist.Entry
	Files   []string
}

func (h HostList) Named() bool { return len(h.Entries)+len(h.Files) > 0 }

// shareHosts settles which hosts each program is for. One list is for the whole job, wherever it
// stands; of several, each is for its program, and what stands before a -configfile is for those
// programs of the file that have none.
func (r *Request) shareHosts() error {
	var own []*Segment
	for i := range r.Segments {
		if r.Segments[i].Hosts.Named() {
			own = append(own, &r.Segments[i])
		}
	}
	if !r.Hosts.Named() && len(own) == 1 {
		r.Hosts, own[0].Hosts = own[0].Hosts, HostList{}
		return nil
	}
	for i := range r.Segments {
		s := &r.Segments[i]
		switch {
		case len(own) == 0 || s.Hosts.Named():
		case r.Hosts.Named():
			s.Hosts = r.Hosts
		default:
			return exit.Usagef("program %d (%s) has no hosts, and others have hosts of their own: write --hosts for "+
				"each, or one list for all", i, plain.Text(s.Argv[0]))
		}
	}
	if len(own) > 0 {
		r.Hosts = HostList{}
	}
	return nil
}

// Everywhere is all hosts of all programs.
func (r *Request) Everywhere() HostList {
	all := r.Hosts
	for _, s := range r.Segments {
		all.Entries = slices.Concat(all.Entries, s.Hosts.Entries)
		all.Files = slices.Concat(all.Files, s.Hosts.Files)
	}
	return all
}
