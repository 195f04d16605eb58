package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setup describes a host. The init of the host receives it with its first order.
type setup struct {
	Name, Address string
	Front         bool // no process ids of its own, no servers
	Dir           string
	Share         []string
	SSH, RSH      bool
}

// initState represents the state of an init. On a node, the init starts the servers and reaps all orphans.
type initState struct {
	setup  setup
	reaper *reaper
	rsh    net.Listener
}

func runInit() int {
	control, err := net.FileConn(os.NewFile(3, "control"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "init: no control socket:", err)
		return 1
	}
	s := &initState{}
	orders, replies := json.NewDecoder(control), json.NewEncoder(control)
	for {
		var o order
		if orders.Decode(&o) != nil {
			return 0 // The process that made the cluster has ended or has stopped this host.
		}
		var r reply
		if err := s.obey(o); err != nil {
			r.Error = err.Error()
		}
		if replies.Encode(r) != nil {
			return 0
		}
	}
}

func (s *initState) obey(o order) error {
	switch o.Do {
	case "setup":
		s.setup = *o.Setup
		if err := mountAll(s.setup); err != nil {
			return err
		}
		if err := s.network(); err != nil {
			return err
		}
		if s.setup.Front {
			return nil
		}
		s.reaper = newReaper()
		return s.startServers()
	case "start":
		return s.startServers()
	case "stop":
		return s.stopAll()
	}
	return fmt.Errorf("unknown order %q", o.Do)
}

// network names the host and sets its addresses.
func (s *initState) network() error {
	if err := unix.Sethostname([]byte(s.setup.Name)); err != nil {
		return err
	}
	for path, value := range map[string]string{
		"/proc/sys/net/ipv6/conf/all/disable_ipv6": "1", "/proc/sys/net/core/somaxconn": "4096",
	} {
		_ = os.WriteFile(path, []byte(value), 0) // Ignore errors: some kernels do not have these files in a namespace.
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := linkUp(fd, "lo"); err != nil {
		return err
	}
	if err := setAddress(fd, unix.SIOCSIFADDR, net.ParseIP(s.setup.Address).To4()); err != nil {
		return fmt.Errorf("address %s: %w", s.setup.Address, err)
	}
	if err := setAddress(fd, unix.SIOCSIFNETMASK, []byte{255, 255, 0, 0}); err != nil {
		return fmt.Errorf("network mask: %w", err)
	}
	return linkUp(fd, "eth0")
}

func setAddress(fd int, request uint, address []byte) error {
	ifr, err := unix.NewIfreq("eth0")
	if err != nil {
		return err
	}
	if err := ifr.SetInet4Addr(address); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, request, ifr)
}

func linkUp(fd int, name string) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("link %s up: %w", name, err)
	}
	return nil
}

// startServers starts the node's servers and returns when they listen.
func (s *initState) startServers() error {
	if s.rsh != nil {
		return errors.New("the node is up already")
	}
	var err error
	if s.rsh, err = serveRSH(s.setup.Name, s.reaper); err != nil {
		return err
	}
	env := []string{"PATH=" + nodePath}
	if s.setup.SSH {
		err = s.server(22, "/usr/sbin/sshd", []string{"/usr/sbin/sshd", "-D", "-e", "-f", "/etc/vcluster/sshd_config"},
			env)
	}
	if err == nil && s.setup.RSH {
		err = s.server(514, "/usr/sbin/inetd", []string{"inetd", "-i", "-E", "-q", "1024", "/etc/vcluster/inetd"}, env)
	}
	return err
}

// server starts a server and waits until its port is bound.
func (s *initState) server(port int, path string, argv, env []string) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	_, done, err := s.reaper.start(path, argv, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: []uintptr{null.Fd(), 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	want := fmt.Sprintf(":%04X 00000000:0000 0A", port)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		select {
		case status := <-done:
			return fmt.Errorf("%s ended with status %#x before it listened", path, uint32(status))
		case <-time.After(5 * time.Millisecond):
		}
		text, err := os.ReadFile("/proc/self/net/tcp")
		if err != nil {
			return err
		}
		if strings.Contains(string(text), want) {
			return nil
		}
	}
	return fmt.Errorf("%s does not listen on port %d after 20s", path, port)
}

// stopAll kills every process of the node except for its init, which is this process. It returns when no process is
// left, or an error after five seconds.
func (s *initState) stopAll() error {
	if s.rsh != nil {
		s.rsh.Close()
		s.rsh = nil
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err := syscall.Kill(-1, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) {
			return nil
		}
	}
	return errors.New("processes are left after 5s of SIGKILL")
}
