package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// sorted is what was printed, line by line, in one order.
func sorted(out []byte) string {
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Each program runs on its own hosts, and its ranks follow those of the one before.
func TestHostsOfEachProgram(t *testing.T) {
	const who = `echo $IBRUN_RANK $IBRUN_HOST $IBRUN_LOCAL_RANK of $IBRUN_LOCAL_SIZE app $IBRUN_APPNUM`
	o := ibrun(t, "--launcher", "local", "-n", "2", "-host", "a:2,b:2", "sh", "-c", who, ":", "-n", "3", "-host",
		"b:3,c", "sh", "-c", who,
		":", "-n", "1", "-host", "a:3", "sh", "-c", who)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
	require.Equal(t,
		"0 a 0 of 3 app 0\n1 a 1 of 3 app 0\n2 b 0 of 3 app 1\n3 b 1 of 3 app 1\n4 b 2 of 3 app 1\n5 a 2 of 3 app 2",
		sorted(o.stdout))
	o = ibrun(t, "--launcher", "local", "-l", "-n", "2", "-H", "a,b", "sh", "-c", "echo x", ":", "-n", "1", "-H", "a:2",
		"sh", "-c", "exit 7")
	require.Equal(t, 7, o.code)
	require.Contains(t, o.stderr, "rank 2 on a exited with code 7")
}

// mpirun's folder has a file for each rank and stream, and the terminal gets the same.
func TestOutputFilename(t *testing.T) {
	dir := t.TempDir()
	const program = `printf 'out %s\n' $IBRUN_RANK; printf 'err %s' $IBRUN_RANK >&2`
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(b)
	}
	o := ibrun(t, "-n", "11", "--output-filename", filepath.Join(dir, "o%r"), "sh", "-c", program)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 11, strings.Count(string(o.stdout), "out "), "copies come here")
	require.Equal(t, 11, strings.Count(o.stderr, "err "))
	require.Equal(t, []string{"out 10\n", "err 3"}, []string{read("o%r/1/rank.10/stdout"),
		read("o%r/1/rank.03/stderr")})
	o = ibrun(t, "-n", "2", "--output-filename", filepath.Join(dir, "x")+":nocopy,nojobid", "--merge-stderr-to-stdout",
		"sh", "-c", program)
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, string(o.stdout)+o.stderr)
	require.Equal(t, "out 1\nerr 1", read("x/rank.1/stdout"))
	require.NoFileExists(t, filepath.Join(dir, "x/rank.1/stderr"))
	o = ibrun(t, "-n", "1", "--output-filename", "/proc/none", "true")
	require.Equal(t, 126, o.code)
	require.Contains(t, o.stderr, "/proc/none")
	o = ibrun(t, "-n", "1", "-J", "run", "--output", filepath.Join(dir, "%x.%3r"), "echo", "named")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "named\n", read("run.000"))
}

// A file that takes no more is given up, and what is printed comes all the same.
func TestOutputFilenameOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	rank := filepath.Join(dir, "rank.0")
	require.NoError(t, os.MkdirAll(rank, 0o700))
	require.NoError(t, os.Symlink("/dev/full", filepath.Join(rank, "stdout")))
	o := ibrun(t, "-n", "1", "--output-filename", dir+":nojobid", "sh", "-c", "seq 30000")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 30000, strings.Count(string(o.stdout), "\n"))
	require.Equal(t, 1, strings.Count(o.stderr, "no space left on device"), o.stderr)
}

func TestPrependPattern(t *testing.T) {
	o := ibrun(t, "--launcher", "local", "-H", "a:2,b", "-prepend-pattern", "<%r %h %p %g> 5%% ", "sh", "-c",
		"echo x; echo y >&2")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "<0 a 0 0> 5% x\n<1 a 0 0> 5% x\n<2 b 1 0> 5% x", sorted(o.stdout))
	require.Equal(t, "<0 a 0 0> 5% y\n<1 a 0 0> 5% y\n<2 b 1 0> 5% y", sorted([]byte(o.stderr)))
}

func TestMultiProg(t *testing.T) {
	file := filepath.Join(t.TempDir(), "multi")
	require.NoError(t, os.WriteFile(file,
		[]byte("0,3 echo %t:%o '%t' 5%\n* sh -c 'echo $IBRUN_RANK app $IBRUN_APPNUM'\n"), 0o600))
	o := ibrun(t, "--launcher", "local", "-n", "5", "-H", "a:2,b:2,c:1", "--multi-prog", file)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "0:0 %t 5%\n1 app 1\n2 app 1\n3:1 %t 5%\n4 app 1", sorted(o.stdout))
}

// A rank file says where each rank runs, and on which cores.
func TestRankFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ranks")
	require.NoError(t, os.WriteFile(file, []byte("rank 0=b slot=0\nrank 1=a slot=0:0\nrank 2=b slot=*\n"), 0o600))
	o := ibrun(t, "--launcher", "local", "-H", "a,b", "-rf", file, "--report-bindings", "sh", "-c",
		"echo $IBRUN_RANK $IBRUN_HOST $(nproc)")
	require.Equal(t, 0, o.code, o.stderr)
	lines := strings.Split(sorted(o.stdout), "\n")
	require.Len(t, lines, 3)
	require.Equal(t, []string{"0 b", "1 a", "2 b"}, []string{lines[0][:3], lines[1][:3], lines[2][:3]})
	require.Regexp(t, `rank 0 on b: CPUs 0\D`, o.stderr)
	require.NoError(t, os.WriteFile(file, []byte("rank 0=a slot=4000\n"), 0o600))
	o = ibrun(t, "--launcher", "local", "-H", "a", "-rf", file, "true")
	require.Equal(t, 125, o.code)
	require.Contains(t, o.stderr, "slot 4000: this node has cores 0-")
}

// In a job of a resource manager that gives no list of its hosts, nothing starts without hosts.
func TestNoHostsInsideAJob(t *testing.T) {
	c := command(t, "-n", "1", "echo", "ran")
	c.Env = append(os.Environ(), "PBS_NODEFILE=/nowhere")
	o := finish(t, c)
	require.Equal(t, 2, o.code)
	require.Empty(t, o.stdout)
	require.Contains(t, o.stderr, `PBS_NODEFILE=/nowhere is not there`)
	require.Contains(t, o.stderr, `hint: name the hosts with --hosts LIST, or write --hosts localhost`)
	for _, option := range []string{"--hosts=localhost", "--no-allocation", "--launcher=local"} {
		c = command(t, option, "echo", "ran")
		c.Env = append(os.Environ(), "PBS_NODEFILE=/nowhere")
		require.Equal(t, "ran\n", string(finish(t, c).stdout), option)
	}
}

// In a job of Slurm ranks go where the job is, and have their own numbers.
func TestInsideAJobOfSlurm(t *testing.T) {
	const job = "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=localhost SLURM_TASKS_PER_NODE=2 SLURM_PROCID=0 SLURM_LOCALID=0 " +
		"SLURM_NODEID=0 SLURM_STEPMGR=x SLURMD_NODENAME=other"
	run := func(more string, args ...string) outcome {
		c := command(t, append(args, "sh", "-c",
			"echo $IBRUN_RANK: $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS "+
				"$SLURMD_NODENAME ${SLURM_STEPMGR-none}")...)
		c.Env = slices.Concat(os.Environ(), strings.Fields(job), strings.Fields(more))
		return finish(t, c)
	}
	o := run("", "-v")
	require.Equal(t, 0, o.code, o.stderr)
	require.ElementsMatch(t, []string{"0: 0 0 0 2 localhost none", "1: 1 1 0 2 localhost none"},
		strings.Split(strings.TrimSpace(string(o.stdout)), "\n"))
	require.Contains(t, o.stderr, "ibrun: Slurm job 7: 1 node with 2 slots (SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE)")
	o = run("", "--no-allocation")
	require.Equal(t, "0: none\n", string(o.stdout))
	const step = "SLURM_STEP_ID=0 SLURM_STEP_NODELIST=localhost SLURM_STEP_TASKS_PER_NODE=3 SLURM_STEP_NUM_TASKS=3 "
	o = run(step)
	require.Equal(t, 3, strings.Count(string(o.stdout), "\n"))
	require.Contains(t, o.stderr, "Slurm job 7 has started this command 3 times")
	o = run(step + "SLURM_PROCID=2")
	require.Equal(t, 0, o.code)
	require.Empty(t, string(o.stdout)+o.stderr)
	o = run("SLURM_TASKS_PER_NODE=2,2")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "SLURM_TASKS_PER_NODE=2,2: counts of 2 hosts, and the job has 1; hint: ibrun")
	require.Equal(t, 1, strings.Count(o.stderr, "\n"))
}

// Flux is asked by its command, since nothing else has its hosts.
func TestInsideAJobOfFlux(t *testing.T) {
	dir := t.TempDir()
	run := func(flux string) outcome {
		require.NoError(t, executable.Write(filepath.Join(dir, "flux"), []byte("#!/bin/sh\n"+flux)))
		c := command(t, "echo", "ran")
		c.Env = append(os.Environ(), "FLUX_URI=local:///x", "PATH="+dir+":"+os.Getenv("PATH"))
		return finish(t, c)
	}
	o := run(`[ "$*" = "kvs get resource.R" ] && echo '{"version":1,"execution":{"nodelist":["localhost"],` +
		`"R_lite":[{"rank":"0","children":{"core":"0-1"}}]}}'`)
	require.Equal(t, "ran\nran\n", string(o.stdout), o.stderr)
	o = run("echo no broker >&2; exit 1")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "Flux: FLUX_URI is set, and flux kvs get resource.R failed: no broker")
	o = run("echo '{}'")
	require.Equal(t, 2, o.code)
	require.Contains(t, o.stderr, "FLUX_URI=local:///x: the answer of flux kvs get resource.R: version 0 of the format")
}
