package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
	"ibrun/internal/job"
)

// within is a place to run ibrun in: a resource manager's job with these variables. The file /f has
// this content.
func within(t *testing.T, env, file string) Surroundings {
	at := around(t)
	at.Env = append(at.Env, strings.Split(env, ";")...)
	read := at.Read
	at.Read = func(name string) ([]byte, error) {
		if name == "/f" {
			return []byte(file), nil
		}
		return read(name)
	}
	at.Now = time.Unix(1700000000, 0)
	at.Ask = func(argv ...string) ([]byte, error) { return nil, fs.ErrNotExist }
	return at
}

// inJob plans a command line within a job.
func inJob(t *testing.T, env, file, line string) (*Plan, error) {
	r, err := parse(strings.Fields(line))
	require.NoError(t, err, line)
	return New(r, within(t, env, file), Identity{})
}

const (
	threeNodes = "SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n[1-3];SLURM_TASKS_PER_NODE=4,1(x2);SLURM_NTASKS=6"
	fewTasks   = "SLURM_JOB_ID=7;SLURM_JOB_NODELIST=n[1-2];SLURM_TASKS_PER_NODE=4(x2);SLURM_NTASKS=3"
)

// Within a job of a resource manager, ranks go to its nodes.
func TestPlacesOfAnAllocation(t *testing.T) {
	const pbs, sge = "PBS_JOBID=1.s;PBS_NODEFILE=/f", "JOB_ID=1;PE_HOSTFILE=/f"
	const het = "SLURM_JOB_ID=7;SLURM_HET_SIZE=2;SLURM_JOB_NODELIST_HET_GROUP_0=a;" +
		"SLURM_JOB_NODELIST_HET_GROUP_1=b[1-2];" +
		"SLURM_TASKS_PER_NODE_HET_GROUP_0=1;SLURM_TASKS_PER_NODE_HET_GROUP_1=2(x2);SLURM_NTASKS=1"
	for _, c := range []struct{ env, file, line, want string }{
		{threeNodes, "", "true", "n1=0,1,2,3 n2=4 n3=5"},
		{threeNodes, "", "-n 2 true", "n1=0,1"},
		{threeNodes, "", "-ppn 1 true", "n1=0 n2=1 n3=2"},
		{threeNodes, "", "-n 4 --map-by node true", "n1=0,3 n2=1 n3=2"},
		{threeNodes, "", "--exclude n1 true", "n2=0 n3=1"},
		{threeNodes, "", "--nodes 2 true", "n1=0 n2=1"},
		{threeNodes, "", "--hosts n2 true", "n2=0"},
		{threeNodes, "", "--hosts n2:3,n3.cluster true", "n2=0,1,2 n3.cluster=3"},
		{threeNodes, "", "--hosts localhost true", "localhost=0"},
		{threeNodes, "", "-n 1 --hosts n2 true : -n 1 --hosts n1 true", "n2=0 n1=1"},
		{threeNodes, "", "--no-allocation true", "login1.cluster=0"},
		{threeNodes, "", "-rmk none true", "login1.cluster=0"},
		{threeNodes, "", "-rmk user true", "login1.cluster=0"},
		{threeNodes, "", "--launcher local true", "login1.cluster=0"},
		{threeNodes, "", "--no-allocation --hosts x true", "x=0"},
		{fewTasks, "", "true", "n1=0,1 n2=2"},
		{fewTasks, "", "-n 3 true", "n1=0,1,2"},
		{fewTasks, "", "-ppn 2 true", "n1=0,1 n2=2,3"},
		{fewTasks, "", "--exclude n2 true", "n1=0,1,2"},
		{fewTasks, "", "--nodes 2 true", "n1=0 n2=1"},
		{fewTasks, "", "--map-by node true", "n1=0,2 n2=1"},
		{fewTasks, "", "true : true", "n1=0,1"},
		{het, "", "true", "a=0 b1=1,2 b2=3,4"},
		{pbs, "a\nb\na\n", "true", "a=0,1 b=2"},
		{pbs, "login1\nb\n", "--nolocal true", "b=0"},
		{sge, "a 2 q1@a UNDEFINED\nb 1 q@b <NULL>\na 1 q2@a UNDEFINED\n", "true", "a=0,1,2 b=3"},
		{pbs + ";" + threeNodes, "a\n", "true", "n1=0,1,2,3 n2=4 n3=5"},
		{pbs + ";" + threeNodes, "a\n", "-rmk pbs true", "a=0"},
		{"HYDRA_HOST_FILE=/f", "a:2\n", "true", "a=0,1"},
		{"HYDRA_HOST_FILE=/f", "a:2\n", "--hosts x true", "x=0"},
		{"SLURM_JOB_ID=7", "", "--hosts x true", "x=0"}, // nothing that could be compared
		{"PBS_NODEFILE=/gone", "", "--hosts x true", "x=0"},
	} {
		p, err := inJob(t, c.env, c.file, c.line)
		require.NoError(t, err, "%s: %s", c.env, c.line)
		require.Equal(t, c.want, ranksByNode(p), "%s: %s", c.env, c.line)
		require.Empty(t, p.Warnings, "%s: %s", c.env, c.line)
	}
}

func TestAllocationRefused(t *testing.T) {
	for _, c := range []struct{ env, line, why string }{
		{threeNodes, "--hosts n9 true", "n9 is not a host of Slurm job 7, by SLURM_JOB_NODELIST, " +
			"SLURM_TASKS_PER_NODE; hint: --no-allocation"},
		{threeNodes, "--hosts n1,n[7-9] true", "n7 is not a host of Slurm job 7, by SLURM_JOB_NODELIST, " +
			"SLURM_TASKS_PER_NODE (nor are 2 others)"},
		{threeNodes, "--hosts login1.cluster true", "login1.cluster is not a host of Slurm job 7"},
		{threeNodes, "-n 1 --hosts n1 true : -n 1 --hosts n9 true", "n9 is not a host"},
		{threeNodes, "-f /f true", "x1 is not a host of Slurm job 7"},
		{threeNodes, "--exclude n[1-3] true", "--exclude leaves no host"},
		{threeNodes + ";SLURM_JOB_NUM_NODES=4", "true", "SLURM_JOB_NUM_NODES=4: SLURM_JOB_NODELIST has 3"},
		{threeNodes + ";SLURM_JOB_NUM_NODES=4", "--hosts n1 true", "SLURM_JOB_NUM_NODES=4: "},
		{threeNodes, "-rmk lsf true", "-rmk lsf: none of the variables"},
		{"SLURM_JOB_ID=7", "true", "SLURM_JOB_ID=7, without SLURM_JOB_NODELIST"},
		{"SLURM_JOB_ID=7", "--doctor", "SLURM_JOB_ID=7, without SLURM_JOB_NODELIST"},
		{"PALS_APID=7", "-n 4 true", "PALS_APID is set"},
		{"FLUX_URI=u", "true", "flux kvs get resource.R failed"},
		{"X=1", "--nolocal true", "--nolocal leaves no host"},
	} {
		_, err := inJob(t, c.env, "x1\n", c.line)
		require.ErrorContains(t, err, c.why, c.line)
		require.Equal(t, exit.Usage, exit.Code(err), c.line)
		require.NotContains(t, err.Error(), "\n")
		require.Contains(t, err.Error()+"hint:", "hint:")
	}
	_, err := parse(strings.Fields("--no-allocation -rmk slurm true"))
	require.ErrorContains(t, err, "--no-allocation contradicts -rmk slurm")
	_, err = planOf(t, "--no-allocation", "-rmk", "none", "true")
	require.NoError(t, err)
}

// Of the processes that srun starts, the first runs the job.
func TestStepOfSeveralTasks(t *testing.T) {
	step := threeNodes + ";SLURM_STEP_ID=0;SLURM_STEP_NODELIST=n[1-2];SLURM_STEP_TASKS_PER_NODE=2,1;" +
		"SLURM_STEP_NUM_TASKS=3;SLURM_NTASKS=3;SLURM_PROCID=%d"
	p, err := inJob(t, fmt.Sprintf(step, 0), "", "true")
	require.NoError(t, err)
	require.Equal(t, "n1=0,1 n2=2", ranksByNode(p))
	require.Len(t, p.Warnings, 1)
	require.Contains(t, p.Warnings[0], "Slurm job 7 has started this command 3 times")
	for task := 1; task < 3; task++ {
		_, err = inJob(t, fmt.Sprintf(step, task), "", "true")
		require.True(t, errors.Is(err, ErrNotFirst))
		require.Zero(t, exit.Code(err))
		_, err = inJob(t, fmt.Sprintf(step, task), "", "--no-allocation true")
		require.NoError(t, err)
	}
}

// A rank is told its own place under the names of its manager, and never that of the process which
// the manager started.
func TestVariablesOfManagers(t *testing.T) {
	own := ";SLURM_PROCID=0;SLURM_LOCALID=0;SLURM_STEPMGR=x;SLURMD_NODENAME=n1;SLURM_CPU_BIND=quiet;" +
		"SLURM_JOB_PARTITION=p;SLURM_CPUS_ON_NODE=4;PBS_TASKNUM=1;FLUX_TASK_RANK=0"
	p, err := inJob(t, threeNodes+own, "", "true")
	require.NoError(t, err)
	require.Contains(t, p.Job.Own, job.RankVariable{Name: "SLURM_PROCID", Fact: job.OwnRank})
	env := p.Job.Programs[0].Env
	for _, name := range []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEPMGR", "SLURMD_NODENAME", "SLURM_CPU_BIND",
		"SLURM_CPUS_ON_NODE", "PBS_TASKNUM", "FLUX_TASK_RANK"} {
		for _, entry := range env {
			require.False(t, strings.HasPrefix(entry, name+"="), entry)
		}
	}
	require.Contains(t, env, "SLURM_JOB_PARTITION=p")
	require.Contains(t, env, "SLURM_JOB_ID=7")
	for tmp, forwarded := range map[string]bool{"TMP=/tmp/1.1.all.q": false, "TMP=/own": true} {
		p, err := inJob(t, "JOB_ID=1;PE_HOSTFILE=/f;QUEUE=all.q;"+tmp, "a 1 all.q@a\n", "true")
		require.NoError(t, err)
		require.Equal(t, forwarded, slices.Contains(p.Job.Programs[0].Env, tmp))
		require.Equal(t, forwarded, !slices.Contains(p.Job.Programs[0].Drop, "TMP"))
	}
	p, err = inJob(t, threeNodes+own, "", "--no-allocation true")
	require.NoError(t, err)
	require.Empty(t, p.Job.Own)
	require.NotContains(t, p.Job.Programs[0].Env, "SLURM_PROCID=0")
}

// -v says what was read.
func TestOriginOfHosts(t *testing.T) {
	const noStarter = "; agents by ssh: the manager has no starter whose input and output are a stream"
	for _, c := range []struct{ env, line, want string }{
		{threeNodes + ";SLURM_JOB_END_TIME=1700003600", "true", "Slurm job 7: 3 nodes with 6 slots " +
			"(SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE), until 2023-11-14 23:13:20 UTC (1h0m0s left); " +
			"agents by ssh: srun is not there"},
		{threeNodes, "--hosts n1 true", "Slurm job 7: 3 nodes with 6 slots (SLURM_JOB_NODELIST, " +
			"SLURM_TASKS_PER_NODE); the hosts that you name count; agents by ssh: srun is not there"},
		{"OAR_FILE_NODES=/f", "true", "the job of OAR: 1 node with 1 slot (OAR_FILE_NODES)" + noStarter},
		{"HYDRA_HOST_FILE=/f", "true", "the host file for hydra: 1 node with 1 slot (HYDRA_HOST_FILE)" + noStarter},
		{"X=1", "true", ""},
	} {
		p, err := inJob(t, c.env, "a\n", c.line)
		require.NoError(t, err)
		require.Equal(t, c.want, p.Origin)
	}
}

// A rank file may name the hosts of the allocation, by name or by number.
func TestRankFileInAllocation(t *testing.T) {
	at := within(t, threeNodes, "rank 0=+n2 slot=0\nrank 1=n1 slot=0\n")
	require.Equal(t, "n3=0 n1=1", ranksByNode(planAt(t, at, "-rf", "/f", "true")))
	_, err := inJob(t, threeNodes, "rank 0=x slot=0\n", "-rf /f true")
	require.ErrorContains(t, err, "no such host in the list: x")
}
