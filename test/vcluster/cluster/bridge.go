package cluster

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// bridgeName is the bridge's name in its own network namespace.
const bridgeName = "br0"

// bridge represents the switch of the cluster: a network namespace with one Linux bridge, which has a port for each
// host. The descriptor fd refers to the namespace and keeps it alive. Once fd is closed and all hosts have ended, the
// kernel removes the namespace with its devices.
type bridge struct{ fd int }

func newBridge() (*bridge, error) {
	b := &bridge{fd: -1}
	err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace: %w", err)
		}
		b.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, b.ip("link add name "+bridgeName+" type bridge", "link set dev "+bridgeName+" up")
}

// join gives every host a veth whose other end is a port of the bridge.
func (b *bridge) join(hosts []*host) error {
	lines := make([]string, 0, 2*len(hosts))
	for _, h := range hosts {
		lines = append(lines,
			fmt.Sprintf("link add name %s type veth peer name eth0 netns %d", h.port(), h.pid()),
			fmt.Sprintf("link set dev %s master %s up", h.port(), bridgeName))
	}
	return b.ip(lines...)
}

// cut takes the host's port out of the bridge: packets vanish both ways, and the host's link stays
// up, as behind a broken switch.
func (b *bridge) cut(h *host) error { return b.ip("link set dev " + h.port() + " nomaster") }

func (b *bridge) heal(h *host) error {
	return b.ip("link set dev " + h.port() + " master " + bridgeName)
}

func (b *bridge) close() error {
	if b.fd < 0 {
		return nil
	}
	return unix.Close(b.fd)
}

// ip runs lines of ip(8) in the bridge's namespace.
func (b *bridge) ip(lines ...string) error {
	return inNetwork(b.fd, func() error { return ip(lines...) })
}

func ip(lines ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// introduce clears the neighbor table of h and sends one datagram from h to each of the other hosts. This makes all of
// them resolve link addresses again. Without it, a host that could not resolve the link address of h during a cut would
// report "no route to host" for up to one more second.
func introduce(h *host, others []*host) error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", h.pid()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return inNetwork(fd, func() error {
		if err := ip("neigh flush all"); err != nil {
			return err
		}
		for _, other := range others {
			if other == h {
				continue
			}
			c, err := net.Dial("udp4", net.JoinHostPort(other.address, "9")) // any port: only the ARP request matters
			if err != nil {
				return err
			}
			_, err = c.Write([]byte{0})
			if err = errors.Join(err, c.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// inNetwork calls f in a network namespace.
func inNetwork(fd int, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// onThread calls f on a new thread, which f may move to other namespaces. The thread ends when f returns. onThread
// never calls f on the main thread, which does not end with its goroutine. As /proc/PID/ns shows the namespaces of the
// main thread, killAll would then take this process for one of a host and kill it.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(f) // runs on another thread, because this goroutine is locked to the main thread
			return
		}
		done <- f()
	}()
	return <-done
}
