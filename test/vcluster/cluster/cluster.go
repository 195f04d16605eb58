// Package cluster makes a virtual cluster on one machine. Each node has its own network, host name, process ids,
// mounts, IPC and sshd. A bridge in a separate network namespace connects the nodes.
//
// Outside of its namespaces, the package creates one directory under /tmp and some cgroups, and raises some kernel
// limits. Close removes the directory and the cgroups, but does not restore the limits. If the calling process is
// killed, a sweeper process removes them. The package needs root.
//
// Commands run on an additional host, the front. It shares process ids, /tmp and the home directory with the machine.
// It shares /etc and the ssh keys with the nodes, and is connected to their network. The package executes the program
// that imports it again, in the roles that role.go lists.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// FrontName is the host name of the host from which commands are run.
const FrontName = "front"

// maxNodes is the largest number of nodes. A Linux bridge has at most 1,023 ports, one of which connects the front.
const maxNodes = 1022

// ErrNotRoot is returned by Up if the caller may not create namespaces.
var ErrNotRoot = errors.New("a virtual cluster needs root: network and mount namespaces are created; " +
	"run as root, or use --launcher local for several agents without one")

// Config describes the cluster that Up makes.
type Config struct {
	Nodes int      // node0001 to nodeNNNN
	RSH   bool     // also a real rsh server on each node: inetd with in.rshd
	NoSSH bool     // start only the rsh stand-in and no sshd; Up then takes a quarter of the time
	Kex   string   // key exchange of the nodes' sshd, for example curve25519-sha256; "" selects sshd's default
	SSHD  []string // lines at the top of the nodes' sshd_config, where they override the lines of this package
	Share []string // further directories, besides the module's root, that nodes see at the path of the machine
}

// Cluster is a running virtual cluster.
type Cluster struct {
	dir     string
	config  Config
	hosts   []*host // the front, then the nodes in order
	byName  map[string]*host
	bridge  *bridge
	groups  groups
	sweeper *exec.Cmd
	hold    *os.File // the sweeper's standard input: its end of file is the order to sweep

	closing  sync.Once
	closeErr error
}

// Up makes a cluster and returns when every node answers. The context bounds the start only.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	if cfg.Nodes < 1 || cfg.Nodes > maxNodes {
		return nil, fmt.Errorf("vcluster: %d nodes: a bridge carries 1 to %d", cfg.Nodes, maxNodes)
	}
	if err := checkTools(cfg); err != nil {
		return nil, err
	}
	liftLimits()
	c := &Cluster{config: cfg, byName: map[string]*host{}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("vcluster: %w", err), c.Close())
	}
	return c, nil
}

func checkTools(cfg Config) error {
	need := map[string]string{"ip": "iproute2", "cp": "coreutils"}
	if !cfg.NoSSH {
		need["/usr/sbin/sshd"], need["ssh"], need["ssh-keygen"] = "openssh-server", "openssh-client", "openssh-client"
	}
	if cfg.RSH {
		need["/usr/sbin/in.rshd"], need["rsh"], need["/usr/sbin/inetd"] = "rsh-redone-server", "rsh-redone-client",
			"openbsd-inetd"
	}
	for tool, pkg := range need {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("vcluster: no %s here: apt-get install %s", tool, pkg)
		}
	}
	return nil
}

// start does the work of Up. If it fails, Close removes what it has made.
func (c *Cluster) start(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp("", "vcluster-"); err != nil {
		return err
	}
	if err = c.startSweeper(); err != nil {
		return err
	}
	if c.groups, err = makeGroups(filepath.Base(c.dir)); err != nil {
		return err
	}
	for i := 0; i <= c.config.Nodes; i++ {
		h := newHost(i)
		c.hosts = append(c.hosts, h)
		c.byName[h.name] = h
	}
	if err = writeFiles(c.dir, c.config, c.hosts); err != nil {
		return err
	}
	if c.bridge, err = newBridge(); err != nil {
		return err
	}
	if err = each(c.hosts, func(h *host) error { return h.start(c.dir, c.groups) }); err != nil {
		return err
	}
	if err = c.bridge.join(c.hosts); err != nil {
		return err
	}
	share := append([]string{filepath.Join(c.dir, "shared")}, c.config.Share...)
	if root := moduleRoot(); root != "" {
		share = append(share, root)
	}
	return each(c.hosts, func(h *host) error { return h.boot(ctx, c.dir, c.config, share) })
}

// each calls f for all hosts, a bounded number at a time, and returns the first error.
func each(hosts []*host, f func(*host) error) error {
	errs := make([]error, len(hosts))
	gate := make(chan struct{}, 32)
	var wait sync.WaitGroup
	for i, h := range hosts {
		gate <- struct{}{}
		wait.Go(func() {
			if err := f(h); err != nil {
				errs[i] = fmt.Errorf("%s: %w", h.name, err)
			}
			<-gate
		})
	}
	wait.Wait()
	return cmp.Or(errs...)
}

// Close ends every process of the cluster and removes everything that Up has made. It is idempotent.
func (c *Cluster) Close() error {
	c.closing.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Cluster) close() error {
	var errs []error
	for _, h := range c.hosts {
		c.groups.thaw(h.name)
	}
	errs = append(errs, each(c.hosts, func(h *host) error { return h.stop() }))
	if c.bridge != nil {
		errs = append(errs, c.bridge.close())
	}
	if c.sweeper != nil {
		errs = append(errs, c.hold.Close(), c.sweeper.Wait())
	}
	return errors.Join(errs...)
}

// Nodes returns the nodes' names in order: node0001 and so on.
func (c *Cluster) Nodes() []string {
	names := make([]string, 0, len(c.hosts))
	for _, h := range c.hosts[1:] {
		names = append(names, h.name)
	}
	return names
}

// Shared returns a directory that the machine, the front and all nodes see at the same path.
func (c *Cluster) Shared() string { return filepath.Join(c.dir, "shared") }

// Etc returns the path, on the machine, of the directory that the front and all nodes see as /etc. A change of a file
// there takes effect on all of them.
func (c *Cluster) Etc() string { return filepath.Join(c.dir, "etc") }

// Log returns the path of the log file of a host. It contains the output of the init, sshd and inetd of the host.
func (c *Cluster) Log(name string) string { return filepath.Join(c.dir, "log", name) }

// Address returns the IPv4 address of a host, or "" if there is no such host.
func (c *Cluster) Address(name string) string {
	if h := c.byName[name]; h != nil {
		return h.address
	}
	return ""
}

// Root returns the path at which the machine sees a host's own files, such as its /tmp.
func (c *Cluster) Root(name string) string { return fmt.Sprintf("/proc/%d/root", c.byName[name].pid()) }

// VRSH returns the path of the rsh stand-in's client, for --launcher-exec. It is the same on the front and all nodes.
func (c *Cluster) VRSH() string { return runDir + "/vrsh" }

// Command returns a command that runs args on the front. The process enters the namespaces of the front and then
// executes the program, which keeps the process id. So signals to the process reach the program. Dir, Env and the
// standard files of the command have their usual effect. If Dir does not exist on the front, the program runs in /. The
// front has the same /tmp, home directory and module as the machine.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	front := c.hosts[0]
	argv := append([]string{roleEnter, strconv.Itoa(front.pid()), c.groups.line(FrontName)}, args...)
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = argv
	return cmd
}

// Exec returns a command to run on a node as a child of its init, without a shell, in root's home
// directory and with a login's environment. It works while the node is cut off. Killing the command
// kills the whole session on the node.
func (c *Cluster) Exec(ctx context.Context, node string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = append([]string{roleExec, filepath.Join(c.dir, "run", "rsh", node)}, args...)
	return cmd
}

// startSweeper starts a process that runs until c.hold is closed, by Close or because this process has ended. It then
// removes the directory and the cgroups of the cluster.
func (c *Cluster) startSweeper() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{roleSweep, c.dir}
	cmd.Stdin = read
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, write.Close())
	}
	c.sweeper, c.hold = cmd, write
	return nil
}

// moduleRoot returns the nearest directory at or above the working directory that holds a go.mod, or "".
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == "/" {
			return ""
		}
	}
}

// stopDeadline limits each wait for processes to end after they were killed or told to end.
const stopDeadline = 10 * time.Second
