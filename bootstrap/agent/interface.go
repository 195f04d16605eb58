package agent

import (
	"net/netip"
	"slices"
	"strings"

	"ibrun/internal/job"
	"ibrun/internal/netiface"
)

// interfaces are the network interfaces that ranks of this node should be told
// of, the first being where their data goes by; none in a job of one node. All
// that --iface names and that are up are among them.
func interfaces(j *job.Job, path string) []string {
	if j.Nodes < 2 {
		return nil
	}
	links, err := netiface.Links()
	if err != nil {
		return nil // a rank that needs one says so
	}
	at, _ := netip.ParseAddr(path) // none is the zero value
	first, err := netiface.Choose(j.Transport.Iface, at, links)
	if err != nil || first.Local {
		return nil
	}
	names := []string{first.Interface}
	for _, word := range strings.Split(j.Transport.Iface, ",") {
		for _, l := range links {
			if l.Name == strings.TrimSpace(word) && l.Up && !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}
