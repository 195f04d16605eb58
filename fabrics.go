package ibrun

import (
	"fmt"
	"net/netip"
	"os"

	"ibrun/bootstrap/wire"
	"ibrun/fabric"
	"ibrun/fabric/udp"
)

// openFabric opens what the job's --fabric names, on the address that --iface
// or the agent's own path to its parent gives. With -v, the first rank of each
// node says which that is, and why.
func openFabric(w wire.Welcome, first bool, to fabric.Sink) (fabric.Fabric, error) {
	links, err := udp.Links()
	if err != nil {
		return nil, err
	}
	path, _ := netip.ParseAddr(w.Path) // none is the zero value
	at, err := udp.Choose(w.How.Iface, path, links)
	if err != nil {
		return nil, err
	}
	if w.How.Tell && first {
		host, _ := os.Hostname()
		fmt.Fprintf(os.Stderr, "ibrun: %s: data goes by %s\n", host, at.Reason)
	}
	return udp.Open(udp.Config{Addr: at.Addr, MTU: at.MTU}, to)
}
