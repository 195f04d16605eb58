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

// printPlace is the shell command of a rank. It prints the number of the rank, the name of its host, and the variables
// by which Slurm describes the place of a task.
const printPlace = `echo "$IBRUN_RANK $(hostname) $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS"`

// expectedPlaces returns the output, after sortByRank, that a job of the command printPlace must have if ranks[i] of
// its ranks run on its node i.
func expectedPlaces(ranks ...int) string {
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

// sortByRank sorts the lines of a job's output by their first field, the number of the rank. It renames the hosts in
// the second field to node0001, node0002 and so on, in the order in which they first occur. So the result does not
// depend on the nodes that Slurm has chosen for the job.
func sortByRank(text string) string {
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

// TestSlurm runs jobs in a real Slurm with four nodes, on which no sshd runs. ibrun must start each rank on the node on
// which Slurm would start the task with the same number. No process of a job may be left when the job has ended.
func TestSlurm(t *testing.T) {
	t.Parallel()
	b := slurm(t, 4, SlurmConfig{CPUs: 16})
	rank := b.script("where", printPlace)
	limited, warned := b.forSubtest(t).limited(), b.forSubtest(t).warned()

	t.Run("starts", func(t *testing.T) { b.forSubtest(t).starts(rank) })
	t.Run("batch", func(t *testing.T) {
		b := b.forSubtest(t)
		job := b.script("job", b.ibrun+" -v "+rank)
		b.run("sbatch", "-Q", "-N3", "--ntasks-per-node=2", "-o", "batch.out", "-e", "batch.err", job)
		b.until("the job to end", func() bool { return b.run("squeue", "-h", "-n", "job") == "" })
		require.Equal(t, expectedPlaces(2, 2, 2), sortByRank(b.read("batch.out")))
		require.Contains(t, b.read("batch.err"), "agents by srun: the manager's own starter")
	})
	t.Run("MPI", func(t *testing.T) {
		b := b.forSubtest(t)
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
	t.Run("signal", func(t *testing.T) { b.forSubtest(t).signal() })
	t.Run("time limit", func(t *testing.T) { limited(b.forSubtest(t)) })
	t.Run("warning", func(t *testing.T) { warned(b.forSubtest(t)) })
}

// starts runs ibrun under salloc, and under srun in an allocation. Each rank must have the expected node and variables
// of Slurm. rank is the path of a script that runs printPlace.
func (b *bed) starts(rank string) {
	for _, c := range []struct {
		words string
		want  string
	}{
		{"salloc -Q -N3 --ntasks-per-node=2 IBRUN", expectedPlaces(2, 2, 2)},
		{"salloc -Q -N2 --exclusive -c8 IBRUN", expectedPlaces(2, 2)},
		{"salloc -Q -N4 --ntasks-per-node=1 --mem=100 IBRUN --tree chain", expectedPlaces(1, 1, 1, 1)},
		{"salloc -Q -N1 -n1 : -N2 -n4 --ntasks-per-node=2 IBRUN --tree chain", expectedPlaces(1, 2, 2)},
		// ibrun runs in a step that has two of the three nodes of the allocation. srun starts it in each of two tasks.
		{"salloc -Q -N3 --ntasks-per-node=2 srun -Q -N2 -n2 IBRUN", expectedPlaces(1, 1)},
		// Another step uses all CPUs of the allocation while ibrun runs.
		{"salloc -Q -N2 --ntasks-per-node=1 sh -c 'srun -Q sleep 100 & IBRUN; kill $!'", expectedPlaces(1, 1)},
	} {
		words := strings.ReplaceAll(c.words, "IBRUN", b.ibrun)
		args := strings.Fields(words)
		if i := strings.Index(words, " sh -c "); i >= 0 {
			inner := strings.Trim(words[i+len(" sh -c "):], "'")
			args = append(strings.Fields(words[:i]), "sh", "-c", strings.Replace(inner, b.ibrun, b.ibrun+" "+rank, 1))
		} else {
			args = append(args, rank)
		}
		require.Equal(b.t, c.want, sortByRank(b.run(args...)), "%s", words)
	}
	step := b.run("salloc", "-Q", "-N4", "--ntasks-per-node=1", "sh", "-c", b.ibrun+" --shared-steps true && "+
		"srun -Q -N1 -n1 sh -c 'echo $SLURM_STEP_ID'")
	require.Equal(b.t, "1", step, "ibrun must start all four agents in one step, so that srun gets step 1")
}

// signalScript is the script of a rank that counts signals. It prints "N up" at the start, "N signal K" for the K-th
// signal SIGNAL, and "N term" at SIGTERM, which ends it. N is the number of the rank. Tests replace SIGNAL by USR1 or
// USR2.
const signalScript = `n=0
trap 'n=$((n+1)); echo "$SLURM_PROCID signal $n"' SIGNAL
trap 'echo "$SLURM_PROCID term"; exit 0' TERM
echo "$SLURM_PROCID up"
for i in $(seq 600); do sleep 0.5; done
`

// count returns how often text occurs in the file name of the folder that all hosts share.
func (b *bed) count(name, text string) int { return strings.Count(b.read(name), text) }

// ends starts jobs and ends each in a different way: by scancel, by killing ibrun, or by killing an srun that ibrun has
// started. All processes of the job must end. After scancel, ibrun must exit with 143 and print one line that says that
// the job was ended. This must hold whether SIGTERM reaches ibrun or an agent first.
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
			b := b.forSubtest(t)
			// The batch script runs one second longer than ibrun, because Slurm kills the ranks when the script ends.
			rank := b.script("ends-rank", strings.Replace(signalScript, "SIGNAL", "USR2", 1))
			root := fmt.Sprintf("exec -a \"root %[1]s\" %[1]s --tree kary:2 %[2]s", b.ibrun, rank)
			job := b.script("ends-job", "trap : TERM; bash -c '"+root+"'; echo code $?; sleep 1")
			out, errs := fmt.Sprintf("ends%d.out", n), fmt.Sprintf("ends%d.err", n)
			id := b.run("sbatch", "--parsable", "-N4", "--ntasks-per-node=2", "-o", out, "-e", errs, job)
			b.until("all ranks to be up", func() bool { return b.count(out, "up") == 8 })
			c.end(b, id)
			b.waitForExit(b.ibrun, rank)
			b.until("the job to end", func() bool { return b.run("squeue", "-h", "-n", "ends-job") == "" })
			if c.name == "scancel" {
				require.Equal(t, 1, b.count(out, "code 143\n"), b.read(out))
				require.Equal(t, 1, b.count(errs, "ibrun: the job was ended: "), b.read(errs))
			}
		})
	}
}

// kill sends SIGKILL to one process whose command line begins with words, on any host. The test fails if there is no
// such process.
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

// signal sends SIGUSR1 to all steps of a job by scancel, as Slurm does for the option --signal of sbatch. Each rank
// must receive the signal exactly once.
func (b *bed) signal() {
	rank := b.script("signal-rank", strings.Replace(signalScript, "SIGNAL", "USR1", 1))
	job := b.script("signal-job", b.ibrun+" --tree chain "+rank)
	id := b.run("sbatch", "--parsable", "-N4", "--ntasks-per-node=2", "-o", "signal.out", "-e", "signal.err", job)
	b.until("all ranks to be up", func() bool { return b.count("signal.out", "up") == 8 })
	b.run("scancel", "--signal=USR1", id)
	b.until("all ranks to get USR1", func() bool { return b.count("signal.out", "signal 1") == 8 })
	b.run("scancel", id)
	b.waitForExit(b.ibrun, rank)
	require.Zero(b.t, b.count("signal.out", "signal 2"), "each rank must get the signal only once")
}

// submit starts a job with two ranks on two nodes by sbatch, and returns when both ranks run. It returns the ID of the
// job, the path of its ibrun and the path of the script of a rank. The file names of both begin with name, so that
// waitForExit does not wait for the processes of other jobs.
func (b *bed) submit(name string, options ...string) (id, launcher, rank string) {
	launcher = filepath.Join(b.c.Shared(), name)
	require.NoError(b.t, os.Link(b.ibrun, launcher))
	rank = b.script(name+"-rank", strings.Replace(signalScript, "SIGNAL", "USR1", 1))
	job := b.script(name+"-job", launcher+" "+rank)
	id = b.run(append(append([]string{"sbatch", "--parsable", "-N2", "-wnode0001,node0002", "--ntasks-per-node=1", "-o",
		name + ".out", "-e", name + ".err"}, options...), job)...)
	b.until("all ranks to be up", func() bool { return b.count(name+".out", "up") == 2 })
	return id, launcher, rank
}

// warned starts a job that is to receive SIGUSR1 before its time limit (--signal=USR1@10), and moves its end to 39 s
// from now. The function that it returns waits until both ranks have received the signal, and ends the job. Slurm
// checks time limits every 30 s, and sends the signal at the first check that is less than 40 s before the end.
func (b *bed) warned() func(*bed) {
	id, launcher, rank := b.submit("warned", "-t2", "--signal=USR1@10")
	b.run("scontrol", "update", "JobId="+id, "EndTime=now+39")
	return func(b *bed) {
		b.until("all ranks to be warned", func() bool { return b.count("warned.out", "signal 1") == 2 })
		b.run("scancel", "-n", "warned-job")
		b.waitForExit(launcher, rank)
		require.Zero(b.t, b.count("warned.out", "signal 2"), "each rank must get the signal only once")
		for _, rank := range []string{"0", "1"} {
			before, _, _ := strings.Cut(b.read("warned.out"), rank+" term")
			require.Contains(b.t, before, rank+" signal 1", "the signal must arrive before SIGTERM")
		}
	}
}

// limited starts a job, and moves its time limit to 5 s from now. The function that it returns waits until Slurm has
// reported the time limit, which Slurm checks every 30 s, and all processes have ended. It does not check the output of
// the ranks, which is lost if Slurm kills the srun that forwards it.
func (b *bed) limited() func(*bed) {
	id, launcher, rank := b.submit("limit", "-t1")
	b.run("scontrol", "update", "JobId="+id, "EndTime=now+5")
	return func(b *bed) {
		b.until("the time limit", func() bool { return b.count("limit.err", "DUE TO TIME LIMIT") > 0 })
		b.waitForExit(launcher, rank)
	}
}

var large = flag.Int("large", 0, "run TestSlurmLarge with `N` nodes; 0 skips it")

// TestSlurmLarge runs a job on -large nodes to its end, and ends another one by scancel, after which all its processes
// must end. Without the option the test does nothing: go test -tags managers ./test/managers -run TestSlurmLarge -large
// 64
func TestSlurmLarge(t *testing.T) {
	if *large == 0 {
		return
	}
	b := slurm(t, *large, SlurmConfig{CPUs: 4})
	all := strconv.Itoa(*large)
	out := b.run("salloc", "-Q", "-N", all, "--ntasks-per-node=2", b.ibrun, b.script("where", printPlace))
	require.Equal(t, expectedPlaces(slices.Repeat([]int{2}, *large)...), sortByRank(out))
	rank := b.script("rank", strings.Replace(signalScript, "SIGNAL", "USR1", 1))
	job := b.script("job", b.ibrun+" "+rank)
	id := b.run("sbatch", "--parsable", "-N", all, "--ntasks-per-node=2", "-o", "large.out", job)
	b.until("all ranks to be up", func() bool { return b.count("large.out", "up") == 2**large })
	b.run("scancel", id)
	b.waitForExit(b.ibrun, rank)
}

// TestConfined runs jobs in a Slurm that limits jobs to their CPUs. Each rank must be allowed to use exactly the CPUs
// that its job has on its node, one or two. With one CPU this must hold with agents that are started by srun and with
// agents that are started over ssh. If srun has bound ibrun to one of two CPUs, ibrun must print a hint.
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
		b := b.forSubtest(t)
		hasOne(t, b.run(append(b.configureAdoption(), "salloc", "-Q", "-N2", "--ntasks-per-node=1", b.ibrun, "--launcher",
			"ssh", "--bind-to", "none", cpus)...))
	})
	two := b.run("salloc", "-Q", "-N2", "--ntasks-per-node=2", b.ibrun, "--bind-to", "none", cpus)
	require.Equal(t, "0-1 0-1 0-1 0-1", strings.Join(strings.Fields(two), " "), "each rank may use both CPUs")
	// srun binds ibrun to one core. The ranks on this node are descendants of ibrun and inherit that.
	cmd := b.Command(b.ctx, "salloc", "-Q", "-N1", "--ntasks-per-node=2", "srun", "-Q", "-n1", "--exact", b.ibrun, "-n",
		"2", cpus)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "start ibrun with all CPUs of the allocation (srun: --cpu-bind=none, -c)")
}
