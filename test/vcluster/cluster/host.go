package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// host represents the front or a node in the process that made the cluster.
type host struct {
	index   int
	name    string
	address string

	init    *exec.Cmd
	control *net.UnixConn // orders to the init as lines of JSON; its end of file ends the host
	orders  sync.Mutex    // one order at a time
	replies *json.Decoder
	frozen  bool
}

// newHost returns the host with index i. Host 0 is the front, with the address 10.77.0.1. Hosts 1 to 250 are the nodes
// 10.77.1.1 to 10.77.1.250, hosts 251 to 500 have addresses from 10.77.2.1 on, and so on.
func newHost(i int) *host {
	if i == 0 {
		return &host{name: FrontName, address: "10.77.0.1"}
	}
	return &host{
		index: i, name: fmt.Sprintf("node%04d", i),
		address: fmt.Sprintf("10.77.%d.%d", 1+(i-1)/250, 1+(i-1)%250),
	}
}

func (h *host) isFront() bool { return h.index == 0 }
func (h *host) port() string  { return fmt.Sprintf("p%d", h.index) }
func (h *host) pid() int      { return h.init.Process.Pid }

// start starts the init of the host in new namespaces and adds it to the host's cgroups. The init waits for the order
// setup, which boot sends.
func (h *host) start(dir string, g groups) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer theirs.Close()
	defer mine.Close()
	log, err := os.OpenFile(filepath.Join(dir, "log", h.name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{roleInit, h.name}
	cmd.Env = append(coverage(), "GOMAXPROCS=2", "PATH="+nodePath)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{theirs}
	flags := unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	if !h.isFront() {
		flags |= unix.CLONE_NEWPID
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(flags), Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting its init: %w (namespaces need CAP_SYS_ADMIN)", err)
	}
	h.init = cmd
	conn, err := net.FileConn(mine)
	if err != nil {
		return err
	}
	h.control = conn.(*net.UnixConn)
	h.replies = json.NewDecoder(h.control)
	return g.add(h.name, h.pid())
}

// order is one line to an init; reply is its answer.
type (
	order struct {
		Do    string // setup, stop, start
		Setup *setup `json:",omitempty"`
	}
	reply struct{ Error string }
)

// order sends an order and waits for the answer, until the deadline at most.
func (h *host) order(deadline time.Time, o order) error {
	h.orders.Lock()
	defer h.orders.Unlock()
	if err := h.control.SetDeadline(deadline); err != nil {
		return err
	}
	if err := json.NewEncoder(h.control).Encode(o); err != nil {
		return fmt.Errorf("its init does not listen: %w", err)
	}
	var r reply
	if err := h.replies.Decode(&r); err != nil {
		return fmt.Errorf("its init does not answer %q: %w", o.Do, err)
	}
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// boot sends the order setup to the init, and returns when the servers of the host listen. It waits for at most 60 s.
func (h *host) boot(ctx context.Context, dir string, cfg Config, share []string) error {
	deadline := time.Now().Add(60 * time.Second)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := h.order(deadline, order{Do: "setup", Setup: &setup{
		Name: h.name, Address: h.address, Front: h.isFront(), Dir: dir, Share: share,
		SSH: !cfg.NoSSH && !h.isFront(), RSH: cfg.RSH && !h.isFront(),
	}})
	if err != nil {
		if text, _ := os.ReadFile(filepath.Join(dir, "log", h.name)); len(text) > 0 {
			err = fmt.Errorf("%w; its log ends: %.2000s", err, text)
		}
	}
	return err
}

// stop ends the init of the host and all its processes. When the init of a node ends, the kernel kills all processes of
// the node. The front has no PID namespace, so stop kills its processes itself.
func (h *host) stop() error {
	if h.init == nil {
		return nil
	}
	var err error
	if h.isFront() {
		err = killAll(h.pid(), h.pid())
	}
	if h.control != nil {
		h.control.Close()
	}
	_ = h.init.Process.Signal(syscall.SIGCONT)
	gone := time.AfterFunc(stopDeadline, func() { _ = h.init.Process.Kill() })
	defer gone.Stop()
	state := h.init.Wait()
	var exit *exec.ExitError
	if state != nil && !errors.As(state, &exit) {
		err = errors.Join(err, state)
	}
	return err
}
