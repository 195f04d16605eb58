package ibrun

import (
	"net/netip"

	"ibrun/bootstrap/wire"
	"ibrun/fabric"
	"ibrun/fabric/udp"
)

// openFabric opens what the job's --fabric names, on the address that --iface
// or the agent's own path to its parent gives.
func openFabric(w wire.Welcome, to fabric.Sink) (fabric.Fabric, error) {
	links, err := udp.Links()
	if err != nil {
		return nil, err
	}
	path, _ := netip.ParseAddr(w.Path) // none is the zero value
	at, err := udp.Choose(w.How.Iface, path, links)
	if err != nil {
		return nil, err
	}
	return udp.Open(udp.Config{Addr: at.Addr, MTU: at.MTU}, to)
}
