package ib

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"ibrun/cgo/verbs"
)

// device represents an open device, its protection domain and the port in use. It is reference-counted: the last
// release closes it.
type device struct {
	ctx    *verbs.Context
	pd     *verbs.PD
	limits verbs.Limits
	port   found
	at     local

	mu    sync.Mutex
	holds int // number of references; 0 means that the device is closed
}

// openDevice opens the first device, in the order of names, that has a port which satisfies the request.
func openDevice(w request) (*device, error) {
	lib, err := verbs.Open()
	if err != nil {
		return nil, err
	}
	list, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b verbs.Device) int { return cmp.Compare(a.Name, b.Name) })
	if len(list) == 0 {
		return nil, errors.New("this node has no InfiniBand device: see /sys/class/infiniband, or use --fabric udp")
	}
	var first error
	for _, d := range list {
		if w.device != "" && d.Name != w.device {
			continue
		}
		opened, err := tryDevice(lib, d, w)
		if err == nil {
			return opened, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
		}
		first = fmt.Errorf("this node has no device %s: it has %v; choose one with --hca", w.device, names)
	}
	return nil, first
}

// tryDevice opens a device if one of its ports satisfies the request, and returns an error otherwise.
func tryDevice(lib *verbs.Library, d verbs.Device, w request) (*device, error) {
	if d.Transport == verbs.TransportIWARP {
		return nil, fmt.Errorf("%s speaks iWARP, which has no datagrams: use --fabric udp", d.Name)
	}
	ctx, err := lib.OpenDevice(d.Name)
	if err != nil {
		return nil, err
	}
	v := &device{ctx: ctx, holds: 1}
	if v.limits, err = ctx.Limits(); err == nil {
		err = v.choosePort(w)
	}
	if err == nil {
		v.pd, err = ctx.NewPD()
	}
	if err == nil {
		err = v.chooseAddress(w)
	}
	if err != nil {
		if v.pd != nil {
			v.pd.Close()
		}
		ctx.Close()
		return nil, err
	}
	return v, nil
}

// choosePort sets v.port to the requested port, or to the first that is active and in the partition. If no port is
// suitable, it returns the error of the first one.
func (v *device) choosePort(w request) (first error) {
	if w.port > v.limits.Ports {
		return fmt.Errorf("%s has no port %d: it has %d", v.ctx.Device(), w.port, v.limits.Ports)
	}
	for n := 1; n <= v.limits.Ports; n++ {
		if w.port != 0 && w.port != n {
			continue
		}
		port, err := v.ctx.Port(n)
		if err != nil {
			return err
		}
		v.port = found{device: v.ctx.Device(), number: n, port: port}
		if err = v.port.usable(); err == nil {
			v.readTables(&v.port, w.gid)
			if _, err = v.port.pkeyIndex(w.pkey); err == nil {
				return nil
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// gap is the number of consecutive empty entries after which readTables stops reading a table. Each entry costs a
// system call, and a RoCE port's table can have a thousand entries.
const gap = 16

// readTables reads the GIDs and partition keys of a port. Entries that cannot be read are left empty, because some
// containers refuse access to single entries. GIDs up to the index gid are read even after a gap.
func (v *device) readTables(p *found, gid int) {
	for i, empty := 0, 0; i < p.port.GIDs && (empty < gap || i <= gid); i, empty = i+1, empty+1 {
		g, err := v.ctx.GID(p.number, i)
		if p.gids = append(p.gids, g); err == nil && g.Addr != [16]byte{} {
			empty = -1
		}
	}
	for i, empty := 0, 0; i < p.port.PKeys && empty < gap; i, empty = i+1, empty+1 {
		k, err := v.ctx.PKey(p.number, i)
		if p.pkeys = append(p.pkeys, k); err == nil && k != 0 {
			empty = -1
		}
	}
}

// chooseAddress sets v.at to a partition and a GID of the port. A GID is used only if an address handle to the port
// itself can be made with it. With an unusable GID, streams would connect and lose every packet.
func (v *device) chooseAddress(w request) error {
	pkey, err := v.port.pkeyIndex(w.pkey)
	if err != nil {
		return err
	}
	if v.port.port.Link != verbs.LinkEthernet && w.gid < 0 {
		v.at = v.port.place(-1, w, pkey)
		return nil
	}
	order, err := v.port.gidOrder(w.gid)
	if err != nil {
		return err
	}
	for _, gid := range order {
		v.at = v.port.place(gid, w, pkey)
		var self *verbs.AH
		if self, err = v.pd.NewAH(v.at.by(v.at.own(), v.at.tuple)); err == nil {
			return self.Close()
		}
	}
	return fmt.Errorf("port %v: no GID of it works: %w", &v.port, err)
}

// hold keeps the device open until release is called. It reports false if the device is closed already.
func (v *device) hold() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holds == 0 {
		return false
	}
	v.holds++
	return true
}

// release ends one hold. The last call closes the device.
func (v *device) release() error {
	v.mu.Lock()
	v.holds--
	last := v.holds == 0
	v.mu.Unlock()
	if !last {
		return nil
	}
	err := v.pd.Close()
	return errors.Join(err, v.ctx.Close())
}

// Check returns an error if no device can be opened on this node, because /dev/infiniband does not exist or libibverbs
// cannot be loaded. It opens no device, so a nil error does not mean that one can be opened.
func Check() error {
	if _, err := os.Stat("/dev/infiniband"); err != nil {
		return errors.New("/dev/infiniband is not there")
	}
	_, err := verbs.Open()
	return err
}

// newQP makes a queue pair. If the device refuses inline sends, newQP makes one without them.
func newQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	qp, err := pd.NewQP(cfg)
	if err != nil && cfg.MaxInline > 0 {
		cfg.MaxInline = 0
		if plain, again := pd.NewQP(cfg); again == nil {
			return plain, nil
		}
	}
	return qp, err
}
