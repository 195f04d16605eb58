package alloc

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
)

// job7 is a job of Slurm with some variables besides, or in the place of its own.
func job7(env ...string) []string {
	return append([]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=2(x3)"}, env...)
}

// What cannot be right is refused in one line that begins with the name of the variable.
func TestRefused(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		env  []string
		file string // content of the file /f
		why  string
	}{
		{job7("SLURM_JOB_NODELIST=n[3-1]"), "", "SLURM_JOB_NODELIST=n[3-1]: invalid host range"},
		{job7("SLURM_JOB_NODELIST=n[1-"), "", "SLURM_JOB_NODELIST=n[1-: invalid host range"},
		{job7("SLURM_JOB_NODELIST=n[-1]"), "", "SLURM_JOB_NODELIST=n[-1]: invalid host range"},
		{job7("SLURM_JOB_NODELIST=n[1-99999999999]"), "", "SLURM_JOB_NODELIST=n[1-99999999999]: host range"},
		{job7("SLURM_JOB_NODELIST=n1,,n2"), "", "SLURM_JOB_NODELIST=n1,,n2: invalid host"},
		{job7("SLURM_JOB_NODELIST=-oProxyCommand"), "", "SLURM_JOB_NODELIST=-oProxyCommand: invalid host"},
		{job7("SLURM_JOB_NODELIST=$(reboot)"), "", "SLURM_JOB_NODELIST=$(reboot): invalid host"},
		{job7("SLURM_JOB_NODELIST=" + long), "", "SLURM_JOB_NODELIST=xxx"},
		{job7("SLURM_JOB_NODELIST=n\x1b[2J"), "", `SLURM_JOB_NODELIST=n\x1b[2J: invalid host`},
		{job7("SLURM_TASKS_PER_NODE=2"), "", "SLURM_TASKS_PER_NODE=2: counts of 1 host, and the job has 3"},
		{job7("SLURM_TASKS_PER_NODE=2(x4)"), "", "SLURM_TASKS_PER_NODE=2(x4): counts of 4 hosts"},
		{job7("SLURM_TASKS_PER_NODE=2(x3"), "", `SLURM_TASKS_PER_NODE=2(x3: "2(x3" is not a count`},
		{job7("SLURM_TASKS_PER_NODE=2(x)"), "", "SLURM_TASKS_PER_NODE=2(x): \"\" is not a whole number"},
		{job7("SLURM_TASKS_PER_NODE=-2(x3)"), "", "SLURM_TASKS_PER_NODE=-2(x3): \"-2\" is not a whole number"},
		{job7("SLURM_TASKS_PER_NODE=0(x3)"), "", "SLURM_TASKS_PER_NODE=0(x3): \"0\" is not"},
		{job7("SLURM_TASKS_PER_NODE=2(x3),"), "", "SLURM_TASKS_PER_NODE=2(x3),: \"\" is not"},
		{job7("SLURM_TASKS_PER_NODE=99999999999999999999(x3)"), "", "SLURM_TASKS_PER_NODE=99999999999999999999(x3): "},
		{job7("SLURM_TASKS_PER_NODE=65536(x3)"), "", "SLURM_TASKS_PER_NODE=65536(x3): \"65536\" is not"},
		{job7("SLURM_JOB_CPUS_PER_NODE=4(x2)"), "", "SLURM_JOB_CPUS_PER_NODE=4(x2): counts of 2 hosts"},
		{job7("SLURM_CPUS_PER_TASK=-1"), "", "SLURM_CPUS_PER_TASK=-1: "},
		{job7("SLURM_CPUS_PER_TASK=two"), "", "SLURM_CPUS_PER_TASK=two: "},
		{job7("SLURM_JOB_NUM_NODES=2"), "", "SLURM_JOB_NUM_NODES=2: SLURM_JOB_NODELIST has 3"},
		{job7("SLURM_JOB_NUM_NODES=x"), "", "SLURM_JOB_NUM_NODES=x: "},
		{job7("SLURM_NTASKS=0"), "", "SLURM_NTASKS=0: "},
		{job7("SLURM_NTASKS=16777217"), "", "SLURM_NTASKS=16777217: "},
		{job7("SLURM_JOB_END_TIME=tomorrow"), "", "SLURM_JOB_END_TIME=tomorrow: not a time"},
		{job7("SLURM_JOB_END_TIME=-1"), "", "SLURM_JOB_END_TIME=-1: not a time"},
		{job7("SLURM_JOB_END_TIME=9999999999999"), "", "SLURM_JOB_END_TIME=9999999999999: not a time"},
		{job7("SLURM_JOB_ID=7; rm"), "", "SLURM_JOB_ID=7; rm: not the number of a job"},
		{job7("SLURM_STEP_ID=x"), "", "SLURM_STEP_ID=x: not the number of a step"},
		{job7("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=-3"), "", "SLURM_STEP_NUM_TASKS=-3: "},
		{job7("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=3"), "",
			"SLURM_PROCID=3: not a task of a step of 3"},
		{job7("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=-1"), "", "SLURM_PROCID=-1: not a task"},
		{job7("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n1", "SLURM_STEP_NUM_NODES=2"), "",
			"SLURM_STEP_NUM_NODES=2: SLURM_STEP_NODELIST has 1"},
		{job7("SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NODELIST=n[1"), "", "SLURM_STEP_NODELIST=n[1: "},
		{job7("SLURM_HET_SIZE=2", "SLURM_JOB_NODELIST_HET_GROUP_0=a"), "",
			"SLURM_HET_SIZE=2: SLURM_JOB_NODELIST_HET_GROUP_1 is not set"},
		{job7("SLURM_HET_SIZE=4000000000"), "", "SLURM_HET_SIZE=4000000000: "},
		{job7("SLURM_HET_SIZE=1", "SLURM_JOB_NODELIST_HET_GROUP_0=a", "SLURM_TASKS_PER_NODE_HET_GROUP_0=1,1"), "",
			"SLURM_TASKS_PER_NODE_HET_GROUP_0=1,1: counts of 2 hosts"},
		{[]string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-1000000]", "SLURM_TASKS_PER_NODE=65535(x1000000)"}, "",
			"SLURM_JOB_NODELIST, SLURM_TASKS_PER_NODE: 1000000 hosts with 65535000000 slots"},
		{[]string{"PBS_NODEFILE=/f"}, "", "PBS_NODEFILE=/f: no host in this file"},
		{[]string{"PBS_NODEFILE=/f"}, "\n \n", "PBS_NODEFILE=/f: no host in this file"},
		{[]string{"PBS_NODEFILE=/f"}, "a\nb c\n", "PBS_NODEFILE=/f: line 2: 2 words"},
		{[]string{"PBS_NODEFILE=/f"}, "a\n\n-b\n", "PBS_NODEFILE=/f: line 3: invalid host"},
		{[]string{"PBS_NODEFILE=/f"}, "a\x00b\n", "PBS_NODEFILE=/f: line 1: invalid host"},
		{[]string{"PBS_NODEFILE=/f"}, strings.Repeat("a\n", 65536),
			"PBS_NODEFILE=/f: line 65536: more than 65535 slots"},
		{[]string{"PBS_NODEFILE=/f"}, strings.Repeat("\n", hostlist.MaxFile+1), "PBS_NODEFILE=/f: more than 16 MiB"},
		{[]string{"PBS_NODEFILE=-"}, "", "PBS_NODEFILE=-: not a file"},
		{[]string{"PBS_NODEFILE=/forbidden"}, "", "PBS_NODEFILE=/forbidden: permission denied"},
		{[]string{"COBALT_NODEFILE=/f"}, "a;b\n", "COBALT_NODEFILE=/f: line 1: "},
		{[]string{"OAR_NODEFILE=/f"}, "a b\n", "OAR_NODEFILE=/f: line 1: "},
		{[]string{"LOADL_HOSTFILE=/f"}, "[a]\n", "LOADL_HOSTFILE=/f: line 1: "},
		{[]string{"LSB_JOBID=1", "LSB_MCPU_HOSTS=a 4 b"}, "", "LSB_MCPU_HOSTS=a 4 b: not pairs"},
		{[]string{"LSB_JOBID=1", "LSB_MCPU_HOSTS=a -4"}, "", "LSB_MCPU_HOSTS=a -4: "},
		{[]string{"LSB_JOBID=1", "LSB_MCPU_HOSTS=a 60000 a 60000"}, "", "LSB_MCPU_HOSTS=a 60000 a 60000: more than"},
		{[]string{"LSB_JOBID=1", "LSB_HOSTS=a b/c"}, "", "LSB_HOSTS=a b/c: invalid host"},
		{[]string{"LSB_JOBID=1", "LSB_HOSTS= "}, "", "LSB_HOSTS= : no host"},
		{[]string{"LSB_DJOB_HOSTFILE=/f"}, "a 4\n", "LSB_DJOB_HOSTFILE=/f: line 1: 2 words"},
		{[]string{"LSB_AFFINITY_HOSTFILE=/f"}, "a 0-x 0 2\n",
			"LSB_AFFINITY_HOSTFILE=/f: line 1: \"0-x\" is not a list of CPUs"},
		{[]string{"PE_HOSTFILE=/f"}, "a\n", "PE_HOSTFILE=/f: line 1: no number of slots"},
		{[]string{"PE_HOSTFILE=/f"}, "a 2 q@a UNDEFINED\nb -1 q@b\n", "PE_HOSTFILE=/f: line 2: "},
		{[]string{"PE_HOSTFILE=/f", "NSLOTS=3"}, "a 2 q@a\n", "NSLOTS=3: PE_HOSTFILE has 2"},
		{[]string{"PE_HOSTFILE=/f", "NHOSTS=2"}, "a 2 q@a\n", "NHOSTS=2: PE_HOSTFILE has 1"},
		{[]string{"PE_HOSTFILE=/f", "NSLOTS=many"}, "a 2 q@a\n", "NSLOTS=many: "},
		{[]string{"SGE_ROOT=/s", "JOB_ID=1", "NSLOTS=-1"}, "", "NSLOTS=-1: "},
		{[]string{"HYDRA_HOST_FILE=/f"}, "a:0\n", "HYDRA_HOST_FILE=/f: /f:1: invalid slots"},
		{[]string{"FLUX_URI=u", "FLUX_JOB_ID=--help"}, "", "FLUX_JOB_ID=--help: not the number of a job"},
		{[]string{"FLUX_URI=u", "FLUX_JOB_ID=f1", "FLUX_JOB_SIZE=0", "FLUX_TASK_RANK=0"}, "", "FLUX_JOB_SIZE=0: "},
		{[]string{"FLUX_URI=u", "FLUX_JOB_ID=f1", "FLUX_JOB_SIZE=2", "FLUX_TASK_RANK=2"}, "", "FLUX_TASK_RANK=2: "},
	} {
		p := process(c.env, map[string]string{"/f": c.file}, nil)
		known := p.Read
		p.Read = func(name string) ([]byte, error) {
			if name == "/forbidden" {
				return nil, fmt.Errorf("%s: %w", name, syscall.EACCES)
			}
			return known(name)
		}
		_, err := Read(p, "")
		require.Error(t, err, c.why)
		require.True(t, strings.HasPrefix(err.Error(), c.why), "%s\nis not %s", err, c.why)
		require.Equal(t, exit.Usage, exit.Code(err), c.why)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 500, c.why)
		require.Contains(t, err.Error(), "hint: ibrun --no-allocation --hosts LIST", c.why)
	}
}

// Flux says what it has given in JSON, which may be as wrong.
func TestFluxRefused(t *testing.T) {
	many := "0-65535"
	for answer, why := range map[string]string{
		"":                               "not a resource set in JSON",
		"[]":                             "not a resource set in JSON",
		`{"version": 2}`:                 "version 2 of the format",
		r1("n1"):                         "no cores",
		r1("", "0", "0-3"):               "the name is empty",
		r1("n1", "0", ""):                `"" is not a set of numbers`,
		r1("n1", "x", "0"):               `"x" is not a set of numbers`,
		r1("n1", "0-1", "0"):             "2 brokers or more, and 1 hosts",
		r1("n1", many, "0"):              "65536 brokers or more, and 1 hosts",
		r1("n1", "0", many):              "65536 cores of a host",
		r1("n[1-2]", "0", "0"):           "counts of 1 host, and the job has 2",
		r1("n[1-2]", "0", "0", "0", "1"): "broker 0 twice",
		r1("n[1-2]", "0", "999999999"):   `"999999999" is not a set of numbers`,
	} {
		env := []string{"FLUX_URI=local:///run/flux"}
		_, err := Read(process(env, nil, map[string]string{"flux kvs get resource.R": answer}), "")
		require.Error(t, err, answer)
		require.Contains(t, err.Error(), why, answer)
		require.True(t, strings.HasPrefix(err.Error(), "FLUX_URI=local:///run/flux: "), err)
		require.Equal(t, exit.Usage, exit.Code(err))
	}
}

// r1 is a resource set of Flux: hosts, and pairs of brokers and their cores.
func r1(nodes string, pairs ...string) string {
	var lite []string
	for i := 0; i < len(pairs); i += 2 {
		lite = append(lite, fmt.Sprintf(`{"rank": %q, "children": {"core": %q}}`, pairs[i], pairs[i+1]))
	}
	return fmt.Sprintf(`{"version": 1, "execution": {"R_lite": [%s], "nodelist": [%q]}}`, strings.Join(lite, ","),
		nodes)
}

// A job whose hosts are not told is an error of its own, since those who name hosts do without.
func TestHostsNotGiven(t *testing.T) {
	for _, c := range []struct{ env, why string }{
		{"SLURM_JOB_ID=7", "Slurm: SLURM_JOB_ID=7, without SLURM_JOB_NODELIST: "},
		{"PBS_JOBID=1.s", "PBS: PBS_JOBID is set, without PBS_NODEFILE: "},
		{"PBS_NODEFILE=/gone", "PBS: PBS_NODEFILE=/gone is not there: "},
		{"LSB_JOBID=1", "LSF: LSB_JOBID is set, without LSB_DJOB_HOSTFILE: "},
		{"PALS_APID=1", "PALS: PALS_APID is set: "},
		{"FLUX_URI=u", "Flux: FLUX_URI is set, and flux kvs get resource.R failed: "},
	} {
		_, err := Read(process([]string{c.env}, nil, nil), "")
		require.ErrorIs(t, err, ErrNoList, c.env)
		require.True(t, strings.HasPrefix(err.Error(), c.why), err)
		require.Equal(t, exit.Usage, exit.Code(err))
		require.Contains(t, err.Error(), "hint: name the hosts with --hosts LIST")
	}
	// A manager further down whose hosts are told counts.
	p := process([]string{"SLURM_JOB_ID=7", "OAR_NODEFILE=/f"}, map[string]string{"/f": "a\n"}, nil)
	a, err := Read(p, "")
	require.NoError(t, err)
	require.Equal(t, "OAR", a.Manager)
	_, err = Read(p, "slurm")
	require.ErrorIs(t, err, ErrNoList)
	a, err = Read(p, "pbs")
	require.NoError(t, err)
	require.Nil(t, a)
}

// No command is run, and no file read, but where a manager's own variables are set.
func TestNothingIsAsked(t *testing.T) {
	p := Process{
		Env:  job7("PBS_O_HOME=/h", "HOME=/h"),
		Read: func(name string) ([]byte, error) { t.Error("read", name); return nil, fs.ErrNotExist },
		Ask:  func(argv ...string) ([]byte, error) { t.Error("asked", argv); return nil, fs.ErrNotExist },
	}
	_, err := Read(p, "")
	require.NoError(t, err)
}
