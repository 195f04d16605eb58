//go:build managers

package managers

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/vcluster/cluster"
)

// where is a shell command that prints a rank's number, its host name and the values of four variables of Slurm.
const where = `echo "$IBRUN_RANK $(hostname) $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS"`

// places returns the output, after sorted, of a job whose ranks run the command in the constant where. The job has
// ranks[i] ranks on its node i.
func places(ranks ...int) string {
	var lines []string
	size := 0
	for _, n := range ranks {
		size += n
	}
	for node, n := range ranks {
		for local := range n {
			rank := len(lines)
			lines = append(lines, fmt.Sprintf("%d node%04d %d %d %d %d", rank, node+1, rank, local, node, size))
		}
	}
	return strings.Join(lines, "\n")
}

// sorted returns the lines of a job's output, sorted by their first field, the rank. In the second field it replaces
// the names of nodes by node0001, node0002 and so on, in the order of their first lines. So the result does not depend
// on the nodes that Slurm has chosen for the job.
func sorted(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	number := func(line string) int { n, _ := strconv.Atoi(strings.Fields(line + " -1")[0]); return n }
	slices.SortFunc(lines, func(a, b string) int { return number(a) - number(b) })
	seen := map[string]string{}
	for i, line := range lines {
		if words := strings.Fields(line); len(words) > 1 {
			if seen[words[1]] == "" {
				seen[words[1]] = fmt.Sprintf("node%04d", len(seen)+1)
			}
			words[1] = seen[words[1]]
			lines[i] = strings.Join(words, " ")
		}
	}
	return strings.Join(lines, "\n")
}

// TestSlurm runs jobs in a real Slurm with four nodes, which have no sshd. Each rank must run on the node on which
// Slurm would start the task with this number. When a job has ended, all its processes must have ended.
func TestSlurm(t *testing.T) {
	t.Parallel()
	b := slurm(t, 4, SlurmConfig{CPUs: 16})
	rank := b.script("where", where)
	limited, warned := b.of(t).limited(), b.of(t).warned()

	t.Run("starts", func(t *testing.T) { b.of(t).starts(rank) })
	t.Run("batch", func(t *testing.T) {
		b := b.of(t)
		job := b.script("job", b.ibrun+" -v "+rank)
		b.run("sbatch", "-Q", "-N3", "--ntasks-per-node=2", "-o", "batch.out", "-e", "batch.err", job)
		b.until("the job to end", func() bool { return b.run("squeue", "-h", "-n", "job") == "" })
		require.Equal(t, places(2, 2, 2), sorted(b.read("batch.out")))
		require.Contains(t, b.read("batch.err"), "agents by srun: the manager's own starter")
	})
	t.Run("MPI", func(t *testing.T) {
		b := b.of(t)
		mpich := suite.MPICH(t, "../mpi/testdata/mpi.c", filepath.Join(b.c.Shared(), "mpich"))
		open := suite.Own().MPI(t, "../mpi/testdata/mpi.c", filepath.Join(b.c.Shared(), "openmpi"))
		// MPICH hangs in MPI_Finalize over TCP, under its own launcher too (docs/mpi-programs.md).
		for _, c := range [][]string{{mpich, "ring", "unfinished"}, {open, "ring"}} {
			out := b.run(append([]string{"salloc", "-Q", "-N4", "--ntasks-per-node=1", b.ibrun, "-x",
				"UCX_TCP_PUT_ENABLE=n", "--bind-to", "none"}, c...)...)
			require.Equal(t, 4, strings.Count(out, "of 4: ring"), out)
		}
	})
	t.Run("ends", func(t *testing.T) { b.ends(t) })
	t.Run("signal", func(t *testing.T) { b.of(t).signal() })
	t.Run("time limit", func(t *testing.T) { limited(b.of(t)) })
	t.Run("warning", func(t *testing.T) { warned(b.of(t)) })
}

// starts runs ibrun under salloc, and under srun in an allocation. Each rank must run on the expected node, with the
// expected variables of Slurm. rank is the path of a script with the command where.
func (b *bed) starts(rank string) {
	for _, c := range []struct {
		words string
		want  string
	}{
		{"salloc -Q -N3 --ntasks-per-node=2 IBRUN", places(2, 2, 2)},
		{"salloc -Q -N2 --exclusive -c8 IBRUN", places(2, 2)},
		{"salloc -Q -N4 --ntasks-per-node=1 --mem=100 IBRUN --tree chain", places(1, 1, 1, 1)},
		{"salloc -Q -N1 -n1 : -N2 -n4 --ntasks-per-node=2 IBRUN --tree chain", places(1, 2, 2)},
		// A step on two of the three nodes of the allocation. srun starts ibrun in both tasks of the step.
		{"salloc -Q -N3 --ntasks-per-node=2 srun -Q -N2 -n2 IBRUN", places(1, 1)},
		// Another step has all CPUs while ibrun runs.
		{"salloc -Q -N2 --ntasks-per-node=1 sh -c 'srun -Q sleep 100 & IBRUN; kill $!'", places(1, 1)},
	} {
		words := strings.ReplaceAll(c.words, "IBRUN", b.ibrun)
		args := strings.Fields(words)
		if i := strings.Index(words, " sh -c "); i >= 0 {
			inner := strings.Trim(words[i+len(" sh -c "):], "'")
			args = append(strings.Fields(words[:i]), "sh", "-c", strings.Replace(inner, b.ibrun, b.ibrun+" "+rank, 1))
		} else {
			args = append(args, rank)
		}
		require.Equal(b.t, c.want, sorted(b.run(args...)), "%s", words)
	}
	step := b.run("salloc", "-Q", "-N4", "--ntasks-per-node=1", "sh", "-c", b.ibrun+" --shared-steps true && "+
		"srun -Q -N1 -n1 sh -c 'echo $SLURM_STEP_ID'")
	require.Equal(b.t, "1", step, "ibrun must have started all four agents in one step, 0")
}

// trapper is the script of a rank that prints a line at its start and for each signal SIGNAL, and exits at SIGTERM. A
// test replaces SIGNAL by the name of a signal. It finds the processes by the name of the script's file.
const trapper = `n=0
trap 'n=$((n+1)); echo "$SLURM_PROCID signal $n"' SIGNAL
trap 'echo "$SLURM_PROCID term"; exit 0' TERM
echo "$SLURM_PROCID up"
for i in $(seq 600); do sleep 0.5; done
`

// count returns the number of times that text occurs in a file of the folder that all hosts share.
func (b *bed) count(name, text string) int { return strings.Count(b.read(name), text) }

// ends starts jobs, and ends them by scancel, by killing ibrun and by killing an srun that ibrun has started. All
// processes of the job must end.
func (b *bed) ends(t *testing.T) {
	for n, c := range []struct {
		name string
		end  func(b *bed, id string)
	}{
		{"scancel", func(b *bed, id string) { b.run("scancel", id) }},
		{"SIGKILL of the root", func(b *bed, _ string) { b.kill("root " + b.ibrun) }},
		{"SIGKILL of one srun", func(b *bed, id string) { b.kill("srun -Q --jobid=" + id + " ") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.of(t)
			// The shell that starts ibrun runs for another second after ibrun has ended.
			rank := b.script("ends-rank", strings.Replace(trapper, "SIGNAL", "USR2", 1))
			root := fmt.Sprintf("exec -a \"root %[1]s\" %[1]s --tree kary:2 %[2]s", b.ibrun, rank)
			job := b.script("ends-job", "bash -c '"+root+"'; sleep 1")
			out, errs := fmt.Sprintf("ends%d.out", n), fmt.Sprintf("ends%d.err", n)
			id := b.run("sbatch", "--parsable", "-N4", "--ntasks-per-node=2", "-o", out, "-e", errs, job)
			b.until("all ranks to be up", func() bool { return b.count(out, "up") == 8 })
			c.end(b, id)
			b.emptied(b.ibrun, rank)
			b.until("the job to end", func() bool { return b.run("squeue", "-h", "-n", "ends-job") == "" })
		})
	}
}

// kill kills one process whose command line begins with words, on any host. The test fails if there is none.
func (b *bed) kill(words string) {
	all, err := b.c.AllProcesses()
	require.NoError(b.t, err)
	for _, procs := range all {
		for _, p := range procs {
			if strings.HasPrefix(strings.Join(p.Argv, " "), words) {
				require.NoError(b.t, syscall.Kill(p.Pid, syscall.SIGKILL))
				return
			}
		}
	}
	b.t.Fatalf("no process %q", words)
}

// signal sends SIGUSR1 to all steps of a job by scancel, as Slurm does for #SBATCH --signal. Each rank must get it
// exactly once.
func (b *bed) signal() {
	rank := b.script("signal-rank", strings.Replace(trapper, "SIGNAL", "USR1", 1))
	job := b.script("signal-job", b.ibrun+" --tree chain "+rank)
	id := b.run("sbatch", "--parsable", "-N4", "--ntasks-per-node=2", "-o", "signal.out", "-e", "signal.err", job)
	b.until("all ranks to be up", func() bool { return b.count("signal.out", "up") == 8 })
	b.run("scancel", "--signal=USR1", id)
	b.until("all ranks to get USR1", func() bool { return b.count("signal.out", "signal 1") == 8 })
	b.run("scancel", id)
	b.emptied(b.ibrun, rank)
	require.Zero(b.t, b.count("signal.out", "signal 2"), "each rank must get the signal only once")
}

// apart submits a job of two ranks on two nodes with sbatch, and returns when the ranks run. It uses a link to ibrun
// with another name, because emptied must find the processes of this job only while other jobs run.
func (b *bed) apart(name string, options ...string) (id, launcher, rank string) {
	launcher = filepath.Join(b.c.Shared(), name)
	require.NoError(b.t, os.Link(b.ibrun, launcher))
	rank = b.script(name+"-rank", strings.Replace(trapper, "SIGNAL", "USR1", 1))
	job := b.script(name+"-job", launcher+" "+rank)
	id = b.run(append(append([]string{"sbatch", "--parsable", "-N2", "-wnode0001,node0002", "--ntasks-per-node=1", "-o",
		name + ".out", "-e", name + ".err"}, options...), job)...)
	b.until("all ranks to be up", func() bool { return b.count(name+".out", "up") == 2 })
	return id, launcher, rank
}

// warned starts a job with --signal=USR1@10, and sets its end to 39 s from now. It returns a function that waits until
// the signal has reached all ranks, and ends the job. Slurm checks time limits every 30 s, and sends the signal at the
// first check that is less than 40 s before the end.
func (b *bed) warned() func(*bed) {
	id, launcher, rank := b.apart("warned", "-t2", "--signal=USR1@10")
	b.run("scontrol", "update", "JobId="+id, "EndTime=now+39")
	return func(b *bed) {
		b.until("all ranks to be warned", func() bool { return b.count("warned.out", "signal 1") == 2 })
		b.run("scancel", "-n", "warned-job")
		b.emptied(launcher, rank)
		require.Zero(b.t, b.count("warned.out", "signal 2"), "each rank must get the signal only once")
		for _, rank := range []string{"0", "1"} {
			before, _, _ := strings.Cut(b.read("warned.out"), rank+" term")
			require.Contains(b.t, before, rank+" signal 1", "the signal must arrive before SIGTERM")
		}
	}
}

// limited starts a job, and sets its end to 5 s from now. It returns a function that waits until Slurm has reported the
// time limit, which it checks every 30 s, and all processes have ended. The function does not check the output of the
// ranks, because it may be lost when Slurm kills the srun that forwards it.
func (b *bed) limited() func(*bed) {
	id, launcher, rank := b.apart("limit", "-t1")
	b.run("scontrol", "update", "JobId="+id, "EndTime=now+5")
	return func(b *bed) {
		b.until("the time limit", func() bool { return b.count("limit.err", "DUE TO TIME LIMIT") > 0 })
		b.emptied(launcher, rank)
	}
}

var large = flag.Int("large", 0, "run TestSlurmLarge with `N` nodes; 0 skips it")

// TestSlurmLarge runs a job on many nodes to its end, and ends another one by scancel. All processes must end. The test
// runs only with -large, such as in go test -tags managers ./test/managers -run TestSlurmLarge -large 64.
func TestSlurmLarge(t *testing.T) {
	if *large == 0 {
		return
	}
	b := slurm(t, *large, SlurmConfig{CPUs: 4})
	all := strconv.Itoa(*large)
	out := b.run("salloc", "-Q", "-N", all, "--ntasks-per-node=2", b.ibrun, b.script("where", where))
	require.Equal(t, places(slices.Repeat([]int{2}, *large)...), sorted(out))
	rank := b.script("rank", strings.Replace(trapper, "SIGNAL", "USR1", 1))
	job := b.script("job", b.ibrun+" "+rank)
	id := b.run("sbatch", "--parsable", "-N", all, "--ntasks-per-node=2", "-o", "large.out", job)
	b.until("all ranks to be up", func() bool { return b.count("large.out", "up") == 2**large })
	b.run("scancel", id)
	b.emptied(b.ibrun, rank)
}

// TestConfined runs jobs in a Slurm that limits jobs to their CPUs. If a job has one CPU on each node, its ranks must
// be allowed to use only that CPU, with agents started by srun and by ssh. If it has two, its ranks must be allowed to
// use both. If Slurm has bound ibrun to one CPU of two, ibrun must print a hint.
func TestConfined(t *testing.T) {
	t.Parallel()
	b := slurmOn(t, cluster.Config{Nodes: 2, SSHD: []string{"UsePAM yes"}},
		SlurmConfig{CPUs: 2, Confine: true, Lines: []string{"PrologFlags=Contain"}})
	cpus := b.script("cpus", `sed -n 's/^Cpus_allowed_list://p' /proc/self/status`)
	hasOne := func(t *testing.T, lists string) {
		for _, list := range strings.Fields(lists) {
			require.NotContains(t, list, "-")
			require.NotContains(t, list, ",")
		}
		require.Len(t, strings.Fields(lists), 2)
	}
	hasOne(t, b.run("salloc", "-Q", "-N2", "--ntasks-per-node=1", b.ibrun, "--bind-to", "none", cpus))
	t.Run("over ssh", func(t *testing.T) {
		b := b.of(t)
		hasOne(t, b.run(append(b.adopted(), "salloc", "-Q", "-N2", "--ntasks-per-node=1", b.ibrun, "--launcher", "ssh",
			"--bind-to", "none", cpus)...))
	})
	two := b.run("salloc", "-Q", "-N2", "--ntasks-per-node=2", b.ibrun, "--bind-to", "none", cpus)
	require.Equal(t, "0-1 0-1 0-1 0-1", strings.Join(strings.Fields(two), " "), "both CPUs of each node")
	// srun binds ibrun to one core. Ranks that ibrun itself starts on this node inherit that.
	cmd := b.Command(b.ctx, "salloc", "-Q", "-N1", "--ntasks-per-node=2", "srun", "-Q", "-n1", "--exact", b.ibrun, "-n",
		"2", cpus)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "start ibrun with all CPUs of the allocation (srun: --cpu-bind=none, -c)")
}
