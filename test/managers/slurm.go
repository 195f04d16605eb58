// Package managers starts a real Slurm or a real Grid Engine on a virtual cluster, for tests and benchmarks. All nodes
// of the cluster are compute nodes. The front, a host of the cluster that is not a node, is the controller and the
// login node. make test-managers installs the Debian packages of Slurm and Grid Engine. A Slurm or Grid Engine that
// already runs on this machine is not used or changed.
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

// SlurmConfig holds the settings in which the Slurms of different tests differ.
type SlurmConfig struct {
	CPUs    int      // CPUs of each node in slurm.conf; without Confine they may exceed those of this machine
	Confine bool     // use cgroups of version 1 to limit the processes of jobs and steps to their CPUs
	Lines   []string // further lines of slurm.conf
}

// Slurm is an installation of Slurm whose daemons run on a virtual cluster.
type Slurm struct {
	c       *cluster.Cluster
	dir     string
	daemons []daemon // on the front
	groups  []string // folders of the cgroups that makeGroups made
}

// cgroupRoots lists the mount points of those cgroup hierarchies of version 1 that Slurm uses.
var cgroupRoots = []string{"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/cpuset"}

// HasGroups reports whether this machine has the cgroup hierarchies of version 1 that Slurm uses. If it has not,
// StartSlurm configures Slurm to find the processes of a job without cgroups.
func HasGroups() bool {
	_, err := os.Stat(cgroupRoots[0] + "/tasks")
	return err == nil
}

// KillWait is the setting KillWait of slurm.conf: the time between SIGTERM and SIGKILL when Slurm ends a job. It is
// shorter than the default of 30 s, so that tests take less time.
const KillWait = 4 * time.Second

// munge is a shell command that starts the daemon munged on a host. The daemons and commands of Slurm authenticate each
// other by munged. KEY must be replaced by the path of the key file.
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

// Environ returns the environment of this process with SLURM_CONF added, so that commands of Slurm use s.
func (s *Slurm) Environ() []string { return append(os.Environ(), "SLURM_CONF="+s.conf()) }

func (s *Slurm) conf() string { return filepath.Join(s.dir, "slurm.conf") }

// Log returns the last 2000 bytes of the log of slurmctld, if name is "slurmctld", or of the slurmd on the node name.
// It returns "" if there is no log.
func (s *Slurm) Log(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.dir, name+".log"))
	return string(text[max(0, len(text)-2000):])
}

// Command returns a command that runs on the front, in the folder that all hosts share, and whose environment is
// Environ.
func (s *Slurm) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := s.c.Command(ctx, args...)
	cmd.Env, cmd.Dir = s.Environ(), s.c.Shared()
	return cmd
}

// makeGroups makes a cgroup in each hierarchy of cgroupRoots. The nodes mount it in the place of the hierarchy.
// Otherwise two Slurms on this machine would use the same cgroups, because Slurm names cgroups after nodes and jobs.
func (s *Slurm) makeGroups() error {
	if !HasGroups() {
		return nil
	}
	for _, root := range cgroupRoots {
		own := filepath.Join(root, "ibrun-slurm-"+filepath.Base(filepath.Dir(s.c.Shared())))
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		s.groups = append(s.groups, own)
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, name))
			if err != nil {
				continue // the hierarchy is freezer, which has no such file
			}
			if err := os.WriteFile(filepath.Join(own, name), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveGroups removes the cgroups that makeGroups made, and all cgroups in them. It must be called after the cluster
// has ended, because a cgroup that contains processes cannot be removed.
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

// configure writes slurm.conf, cgroup.conf and the key file of munged.
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

// start starts all daemons, and waits until all nodes are idle and can run jobs.
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
		mounts += "mount --bind " + own + " " + cgroupRoots[i] + " && "
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

// daemon is a process on the front, started by Slurm.daemon.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
}

// daemon starts a program on the front. The kernel kills the program when the thread that started it ends (Pdeathsig,
// golang.org/issue/27505), and therefore also when this process ends. A goroutine stays locked to this thread until the
// program has ended, so that the thread does not end earlier.
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
// RemoveGroups must be called after that.
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
