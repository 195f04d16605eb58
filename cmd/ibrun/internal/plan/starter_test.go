package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// In the job of a manager agents are started by its own starter where that is there, and by what
// the user says in any case.
func TestStarterOfAnAllocation(t *testing.T) {
	const pbs, sge, lsf = "PBS_JOBID=1[2].s;PBS_NODEFILE=/f", "JOB_ID=1;PE_HOSTFILE=/f", "LSB_HOSTS=a b;LSF_BINDIR=/lsf"
	for _, c := range []struct{ env, file, has, line, launcher, starter, why string }{
		{threeNodes, "", "srun", "true", "slurm", "srun", "agents by srun: the manager's own starter"},
		{threeNodes, "", "", "true", "ssh", "", "agents by ssh: srun is not there"},
		{threeNodes, "", "", "--launcher slurm true", "slurm", "srun", "agents by srun: as --launcher says"},
		{threeNodes, "", "srun", "--launcher ssh true", "ssh", "", "agents by ssh, as --launcher says"},
		{threeNodes, "", "srun", "--ssh-args -4 true", "ssh", "", "agents by ssh: as --ssh"},
		{threeNodes, "", "srun", "--ssh exec true", "ssh", "", "agents by ssh: as --ssh"},
		{threeNodes, "", "srun", "--launcher-exec x true", "ssh", "", ""},
		{threeNodes, "", "srun", "--hosts n1 true", "slurm", "srun", "the hosts that you name count; agents by srun"},
		{pbs, "a\nb\n", "pbs_attach", "true", "pbs", "pbs_attach", "agents by ssh and pbs_attach"},
		{pbs, "a\nb\n", "", "true", "ssh", "", "agents by ssh: pbs_attach is not there"},
		{sge, "a 1\nb 1\n", "qrsh", "true", "sge", "qrsh", "agents by qrsh"},
		{lsf, "", "/lsf/blaunch", "true", "lsf", "/lsf/blaunch", "agents by blaunch"},
		{"X=1", "", "srun", "-H a true", "ssh", "", ""},
	} {
		at := within(t, c.env, c.file)
		at.Has = func(command string) bool { return command == c.has }
		p := planAt(t, at, strings.Fields(c.line)...)
		require.Equal(t, c.launcher, p.Job.Launch.Launcher, c)
		require.Equal(t, c.starter, strings.Join(first(p.Job.Launch.Starter), ""), c)
		require.Contains(t, p.Origin, c.why)
	}
	_, err := inJob(t, pbs, "a\n", "--launcher slurm true")
	require.ErrorContains(t, err, "does not run in a job of Slurm")
}

func first(words []string) []string { return words[:min(1, len(words))] }

// Without --timeout a job ends just before its allocation does.
func TestEndOfAnAllocation(t *testing.T) {
	const ends = threeNodes + ";SLURM_JOB_END_TIME=1700003600"
	for _, c := range []struct {
		env, line string
		timeout   time.Duration
		limited   bool
		warning   string
	}{
		{ends, "true", time.Hour - 12*time.Second, true, ""},
		{ends, "--kill-grace 60 true", time.Hour - 70*time.Second, true, ""},
		{ends, "--timeout 90 true", 90 * time.Second, false, ""},
		{ends, "--timeout 2h true", 2 * time.Hour, false, "--timeout 2h0m0s is longer than Slurm job 7 lasts (1h0m0s)"},
		{ends, "--no-allocation true", 0, false, ""},
		{threeNodes, "true", 0, false, ""},
		{threeNodes + ";SLURM_JOB_END_TIME=1700000011", "true", 0, false, ""},
		{threeNodes + ";SLURM_JOB_END_TIME=1600000000", "true", 0, false, ""},
	} {
		p, err := inJob(t, c.env, "", c.line)
		require.NoError(t, err, c)
		require.Equal(t, c.timeout, p.Policy.Timeout, c)
		require.Equal(t, c.limited, p.Limited, c)
		require.Contains(t, strings.Join(p.Warnings, "\n"), c.warning)
	}
}

// The hosts of a heterogeneous job are reached by the number of their component.
func TestNumbersOfComponents(t *testing.T) {
	const het = "SLURM_JOB_ID=7;SLURM_HET_SIZE=2;SLURM_JOB_NODELIST_HET_GROUP_0=a;SLURM_JOB_NODELIST_HET_GROUP_1=b[1-2]"
	p := planAt(t, within(t, het, ""), "--launcher", "slurm", "true")
	require.Equal(t, []job.NumberedHosts{{Hosts: "a"}, {Hosts: "b[1-2]", First: 1}}, p.Job.Launch.Numbers)
	require.Contains(t, p.Job.Launch.Starter, "--het-group=%n")
}

// Hosts share a step of Slurm, which opens a port, only if the user asks for it.
func TestSharedSteps(t *testing.T) {
	p, err := inJob(t, threeNodes, "", "--launcher slurm true")
	require.NoError(t, err)
	require.False(t, p.Job.Launch.SharesSteps())
	require.Subset(t, p.Job.Launch.Starter, []string{"-N1", "-n1"})
	require.Zero(t, p.Job.Launch.Batch)
	for line, batch := range map[string]uint32{"": stepHosts, "--batch 3 ": 3} {
		p, err = inJob(t, threeNodes, "", "--launcher slurm --shared-steps "+line+"true")
		require.NoError(t, err)
		require.True(t, p.Job.Launch.SharesSteps())
		require.EqualValues(t, batch, p.Job.Launch.Batch)
	}
	for _, line := range []string{"--launcher ssh --shared-steps true", "--shared-steps --ssh-args -v true"} {
		_, err = inJob(t, threeNodes, "", line)
		require.ErrorContains(t, err, "takes several hosts", line)
	}
}
