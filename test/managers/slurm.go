// Package managers starts a real Slurm or a real Grid Engine on a virtual cluster, for tests and benchmarks. The
// front is the controller and the login node, and all nodes are compute nodes. Their Debian packages must be installed,
// which make test-managers does. All daemons run in the virtual cluster. Those that run on this machine itself are not
// used or changed.
package managers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ibrun/test/vcluster/cluster"
)

// SlurmConfig has the settings of a Slurm that differ between tests.
type SlurmConfig struct {
	CPUs    int      // of each node in slurm.conf; may exceed the CPUs of this machine unless Confine is set
	Confine bool     // limit jobs and steps to their CPUs, with cgroups of version 1
	Lines   []string // further lines of slurm.conf
}

// Slurm is a Slurm that runs on a virtual cluster.
type Slurm struct {
	c       *cluster.Cluster
	dir     string
	daemons []daemon // on the front
	groups  []string // folders of the cgroups that makeGroups made
}

// hierarchies lists the mount points of the cgroup hierarchies of version 1 that Slurm uses.
var hierarchies = []string{"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/cpuset"}

// HasGroups reports whether this machine has the hierarchies. Otherwise Slurm is configured to find the processes of a
// job without cgroups.
func HasGroups() bool {
	_, err := os.Stat(hierarchies[0] + "/tasks")
	return err == nil
}

// KillWait is the time from SIGTERM to SIGKILL when Slurm ends a job. It is short for tests: Slurm's default is 30 s.
const KillWait = 4 * time.Second

// munge is a shell command that starts the daemon munged on a host. The daemons and commands of Slurm use it to
// authenticate each other.
const munge = `mkdir -p -m 755 /run/munge /run/slurmd && exec /usr/sbin/munged --force --num-threads 1 ` +
	`--key-file KEY --socket /run/munge/munge.socket.2 --pid-file /run/munge/munged.pid ` +
	`--log-file /run/munge/munged.log --seed-file /run/munge/seed`

// StartSlurm starts Slurm on a cluster, and returns when all nodes are idle.
func StartSlurm(ctx context.Context, c *cluster.Cluster, cfg SlurmConfig) (*Slurm, error) {
	for _, program := range []string{"/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "srun"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s is missing: apt-get install slurmctld slurmd slurm-client "+
				"slurm-wlm-basic-plugins munge", program)
		}
	}
	s := &Slurm{c: c, dir: filepath.Join(c.Shared(), "slurm")}
	if err := s.configure(cfg); err != nil {
		return nil, err
	}
	err := s.makeGroups()
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Environ returns the environment of this process with SLURM_CONF, so that commands of Slurm use this Slurm.
func (s *Slurm) Environ() []string { return append(os.Environ(), "SLURM_CONF="+s.conf()) }

func (s *Slurm) conf() string { return filepath.Join(s.dir, "slurm.conf") }

// Log returns the last 2000 bytes of a daemon's log. name is "slurmctld", or the name of a node for its slurmd.
func (s *Slurm) Log(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name+".log"))
	return string(text[max(0, len(text)-2000):])
}

// Command returns a command that runs on the front with Environ.
func (s *Slurm) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := s.c.Command(ctx, args...)
	cmd.Env, cmd.Dir = s.Environ(), s.c.Shared()
	return cmd
}

// makeGroups makes a cgroup in each of the hierarchies, which the nodes use as the root of the hierarchy. Without it,
// two Slurms on this machine would use the same cgroups, because Slurm names them after nodes and jobs.
func (s *Slurm) makeGroups() error {
	if !HasGroups() {
		return nil
	}
	for _, root := range hierarchies {
		own := filepath.Join(root, "ibrun-slurm-"+filepath.Base(filepath.Dir(s.c.Shared())))
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		s.groups = append(s.groups, own)
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				continue // only the hierarchy cpuset has this file
			}
			if err := os.WriteFile(filepath.Join(own, name), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveGroups removes the cgroups that makeGroups made, and all cgroups in them. Call it after all processes in them
// have ended, because a cgroup with processes cannot be removed.
func (s *Slurm) RemoveGroups() {
	for _, own := range s.groups {
		var all []string
		_ = filepath.WalkDir(own, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(all) {
			_ = os.Remove(dir)
		}
	}
}

// configure writes slurm.conf, cgroup.conf and the key of munge.
func (s *Slurm) configure(cfg SlurmConfig) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "state"), 0o755); err != nil {
		return err
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key)
	if err := os.WriteFile(s.key(), key, 0o400); err != nil {
		return err
	}
	track := "ProctrackType=proctrack/cgroup\nTaskPlugin=task/none\n"
	switch {
	case cfg.Confine:
		track = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup,task/affinity\n"
	case !HasGroups():
		track = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
	}
	nodes := s.c.Nodes()
	text := strings.NewReplacer("DIR", s.dir, "CPUS", strconv.Itoa(cfg.CPUs), "TRACK\n", track,
		"KILLWAIT", strconv.Itoa(int(KillWait/time.Second)),
		"NODES", fmt.Sprintf("node[0001-%s]", strings.TrimPrefix(nodes[len(nodes)-1], "node")),
		"LINES\n", strings.Join(append(cfg.Lines, ""), "\n")).Replace(slurmConf)
	return errors.Join(os.WriteFile(s.conf(), []byte(text), 0o644),
		os.WriteFile(filepath.Join(s.dir, "cgroup.conf"), []byte(cgroupConf), 0o644))
}

func (s *Slurm) key() string { return filepath.Join(s.dir, "munge.key") }

const slurmConf = `ClusterName=lab
SlurmctldHost=front
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=DIR/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=DIR/slurmctld.log
SlurmdLogFile=DIR/%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdTimeout=300
InactiveLimit=0
KillWait=KILLWAIT
TRACK
LINES
NodeName=NODES CPUs=CPUS Sockets=1 CoresPerSocket=CPUS ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=60 DefaultTime=10 State=UP OverSubscribe=YES
`

const cgroupConf = `CgroupPlugin=cgroup/v1
CgroupAutomount=no
CgroupMountpoint=/sys/fs/cgroup
ConstrainCores=yes
ConstrainRAMSpace=no
`

// start starts all daemons, and waits until all nodes are idle. The daemons on the front are children of this process.
func (s *Slurm) start(ctx context.Context) error {
	munge := strings.Replace(munge, "KEY", s.key(), 1)
	if err := s.daemon("sh", "-c", munge+" --foreground"); err != nil {
		return err
	}
	if err := s.daemon("/usr/sbin/slurmctld", "-D", "-f", s.conf()); err != nil {
		return err
	}
	mounts := ""
	for i, own := range s.groups {
		mounts += "mount --bind " + own + " " + hierarchies[i] + " && "
	}
	err := eachNode(s.c, func(node string) error {
		out, err := s.c.Command(ctx, s.c.VRSH(), "-n", node, mounts+"sh -c '"+strings.Replace(munge, "exec ", "", 1)+
			"' >/dev/null 2>&1 && SLURM_CONF="+s.conf()+" /usr/sbin/slurmd -N "+node+" -f "+s.conf()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: slurmd: %w: %s", node, err, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for {
		out, _ := s.Command(ctx, "sinfo", "-h", "-t", "idle", "-o", "%D").Output()
		if n, _ := strconv.Atoi(strings.TrimSpace(string(out))); n == len(s.c.Nodes()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("slurm: %s of %d nodes are idle: %w\n%s", strings.TrimSpace(string(out)),
				len(s.c.Nodes()), ctx.Err(), s.Log("slurmctld"))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// daemon is a process on the front that Slurm.daemon has started.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// daemon starts a program on the front, which the kernel kills when this process ends (Pdeathsig). The kernel would
// also kill it when the thread that started it ends (golang.org/issue/27505). So a goroutine is locked to this thread
// until the program has ended.
func (s *Slurm) daemon(args ...string) error {
	cmd := s.c.Command(context.Background(), args...)
	cmd.Env = s.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(filepath.Join(s.dir, filepath.Base(args[0])+".out"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	d, started := daemon{cmd, make(chan struct{})}, make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(d.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.daemons = append(s.daemons, d)
	return nil
}

// Close kills the daemons on the front, and waits until they have ended. The daemons on the nodes end with the cluster.
// Call RemoveGroups after that.
func (s *Slurm) Close() {
	for _, d := range s.daemons {
		_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
		<-d.ended
	}
	s.daemons = nil
}

// eachNode calls f for all nodes of a cluster at the same time, and returns the errors.
func eachNode(c *cluster.Cluster, f func(node string) error) error {
	var all sync.WaitGroup
	errs := make([]error, len(c.Nodes()))
	for i, node := range c.Nodes() {
		all.Go(func() { errs[i] = f(node) })
	}
	all.Wait()
	return errors.Join(errs...)
}
