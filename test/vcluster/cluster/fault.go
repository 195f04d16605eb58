package cluster

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Cut disconnects a host from the network: the bridge drops all packets to and from it. The processes of the host run
// on, and its network interface stays up.
func (c *Cluster) Cut(name string) error { return c.fault(name, c.bridge.cut) }

// Heal undoes Cut. When it returns, the other hosts can connect to the host again.
func (c *Cluster) Heal(name string) error {
	return c.fault(name, func(h *host) error { return errors.Join(c.bridge.heal(h), introduce(h, c.hosts)) })
}

// Kill kills every process of a host except for its init. The network stack of the host still works. It closes the
// connections of the killed processes and refuses new ones.
func (c *Cluster) Kill(name string) error {
	return c.fault(name, func(h *host) error {
		if h.isFront() {
			return killAll(h.pid(), h.pid())
		}
		if h.frozen {
			// A frozen process dies when it is thawed, before it runs again.
			if err := signalAll(h.pid(), syscall.SIGKILL, h.pid()); err != nil {
				return err
			}
			if err := c.thaw(h); err != nil {
				return err
			}
		}
		return h.order(time.Now().Add(stopDeadline), order{Do: "stop"})
	})
}

// Crash simulates a power failure. It calls Cut and then Kill, so that peers do not see their connections close.
func (c *Cluster) Crash(name string) error {
	if err := c.Cut(name); err != nil {
		return err
	}
	return c.Kill(name)
}

// Start starts the servers of a node again after Kill or Crash; after Crash it is still cut off.
func (c *Cluster) Start(name string) error {
	return c.fault(name, func(h *host) error {
		if h.isFront() {
			return errors.New("the front has no servers")
		}
		return h.order(time.Now().Add(20*time.Second), order{Do: "start"})
	})
}

// Freeze stops all processes of a host. The network stack of the host still acknowledges data and accepts connections,
// but no process replies.
func (c *Cluster) Freeze(name string) error {
	return c.fault(name, func(h *host) error {
		h.frozen = true
		if c.groups.freeze != "" {
			return c.groups.set(h.name, true)
		}
		return signalAll(h.pid(), syscall.SIGSTOP, 0)
	})
}

// Thaw undoes Freeze.
func (c *Cluster) Thaw(name string) error { return c.fault(name, c.thaw) }

func (c *Cluster) thaw(h *host) error {
	h.frozen = false
	if c.groups.freeze != "" {
		return c.groups.set(h.name, false)
	}
	return signalAll(h.pid(), syscall.SIGCONT, 0)
}

// CPU returns the CPU time that all processes of a host have used since the start of the cluster, including those that
// have ended. When nodes share the cores of one machine, CPU time measures the load of a node better than elapsed time
// does.
func (c *Cluster) CPU(name string) (used time.Duration, err error) {
	err = c.fault(name, func(h *host) (err error) {
		used, err = c.groups.cpu(h.name)
		return err
	})
	return used, err
}

func (c *Cluster) fault(name string, f func(*host) error) error {
	h := c.byName[name]
	if h == nil {
		return fmt.Errorf("vcluster: no host %q: %s, node0001 to node%04d", name, FrontName, c.config.Nodes)
	}
	if err := f(h); err != nil {
		return fmt.Errorf("vcluster: %s: %w", name, err)
	}
	return nil
}
