package plan

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/exit"
)

// insideOf is what a resource manager sets, and the hosts that its job has. FILE is a file with
// the text.
type insideOf struct {
	env   string
	file  string
	hosts string // as a plan's runs show them, with slots
}

var inside = map[string]insideOf{
	"Slurm":           {env: "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[01-02],m SLURM_JOB_NUM_NODES=3", hosts: "n01 n02 m"},
	"Slurm, one node": {env: "SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n01 SLURM_JOB_NUM_NODES=1", hosts: "n01"},
	"Slurm, old":      {env: "SLURM_JOBID=7 SLURM_NODELIST=n01", hosts: "n01"},
	"Slurm, heterogeneous": {
		env:   "SLURM_JOB_ID=7 SLURM_JOB_NODELIST_HET_GROUP_1=b[1-2] SLURM_JOB_NODELIST_HET_GROUP_0=a SLURM_HET_SIZE=2",
		hosts: "a b1 b2",
	},
	"PBS":         {env: "PBS_JOBID=1.s PBS_NODEFILE=FILE", file: "a\na\nb\n", hosts: "a:2 b"},
	"Cobalt":      {env: "COBALT_JOBID=1 COBALT_NODEFILE=FILE", file: "a\nb\n", hosts: "a b"},
	"LSF":         {env: "LSB_JOBID=1 LSB_DJOB_HOSTFILE=FILE LSB_HOSTS=x", file: "a\nb\na\n", hosts: "a:2 b"},
	"LSF, hosts":  {env: "LSB_JOBID=1 LSB_HOSTS=a+a+b", hosts: "a:2 b"},
	"LSF, counts": {env: "LSB_JOBID=1 LSB_MCPU_HOSTS=a+4+b+2", hosts: "a:4 b:2"},
	"Grid Engine": {env: "JOB_ID=1 PE_HOSTFILE=FILE", file: "a 2 q@a UNDEFINED\nb 1 q@b <NULL>\n",
		hosts: "a:2 b:1"},
	"Flux":            {env: "FLUX_URI=local:///run/flux/local", hosts: "f1 f2"},
	"OAR":             {env: "OAR_JOB_ID=1 OAR_NODEFILE=FILE", file: "a\na\nb\n", hosts: "a:2 b"},
	"OAR, other name": {env: "OAR_FILE_NODES=FILE", file: "a\n", hosts: "a"},
	"LoadLeveler":     {env: "LOADL_HOSTFILE=FILE", file: "a\nb\n", hosts: "a b"},
	"hydra":           {env: "HYDRA_HOST_FILE=FILE", file: "a:2\nb\n", hosts: "a:2 b"},
	"Intel MPI":       {env: "I_MPI_HYDRA_HOST_FILE=FILE", file: "a:2\nb\n", hosts: "a:2 b"},
	"Open MPI":        {env: "OMPI_MCA_orte_default_hostfile=FILE", file: "a slots=2\nb\n", hosts: "a:2 b"},
	"Open MPI 5":      {env: "PRTE_MCA_prte_default_hostfile=FILE", file: "a slots=2\n", hosts: "a:2"},
	"Slurm, no list":  {env: "SLURM_JOB_ID=7"},
	"PBS, no file":    {env: "PBS_JOBID=1.s"},
	"LSF, no list":    {env: "LSB_JOBID=1"},
	"PALS":            {env: "PALS_APID=0123"},
}

// surround is a place to run ibrun in, inside a manager's job.
func (in insideOf) surround(t *testing.T) Surroundings {
	at := around(t)
	file := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(file, []byte(in.file), 0o600))
	for _, entry := range strings.Fields(in.env) {
		at.Env = append(at.Env, strings.ReplaceAll(strings.Replace(entry, "=FILE", "="+file, 1), "+", " "))
	}
	return at
}

// Inside a job of a resource manager, and without hosts, ibrun says what to write; and what it
// says is right.
func TestAllocationWithoutHosts(t *testing.T) {
	flux := filepath.Join(t.TempDir(), "flux")
	require.NoError(t, os.WriteFile(flux, []byte("#!/bin/sh\n[ \"$*\" = 'getattr hostlist' ] && echo 'f[1-2]'\n"),
		0o700))
	for name, in := range inside {
		t.Run(name, func(t *testing.T) {
			at := in.surround(t)
			for _, line := range []string{"true", "-n 1 true", "-n 4 true", "--dry-run true", "--doctor"} {
				r, err := parse(strings.Fields(line))
				require.NoError(t, err)
				_, err = New(r, at, Identity{})
				require.Equal(t, exit.Usage, exit.Code(err), line)
				manager, _, _ := strings.Cut(name, ",")
				require.Contains(t, err.Error(), strings.TrimSuffix(manager, " 5"))
				require.Contains(t, err.Error(), "--hosts localhost")
				require.NotContains(t, err.Error(), "\n")
			}
			for _, line := range []string{"--hosts localhost true", "--launcher local true", "--hosts a,b -n 2 true"} {
				r, err := parse(strings.Fields(line))
				require.NoError(t, err)
				_, err = New(r, at, Identity{})
				require.NoError(t, err, line)
			}
			if in.hosts == "" {
				return
			}
			r, err := parse([]string{"true"})
			require.NoError(t, err)
			_, err = New(r, at, Identity{})
			write := regexp.MustCompile(`write (.*), or --hosts localhost`).FindStringSubmatch(err.Error())
			require.NotNil(t, write, err.Error())
			sh := exec.Command("sh", "-c", `printf '%s\0' `+write[1])
			sh.Env = append(at.Env, "PATH="+filepath.Dir(flux)+":"+os.Getenv("PATH"))
			words, err := sh.Output()
			require.NoError(t, err)
			r, err = parse(append(strings.Split(strings.TrimSuffix(string(words), "\x00"), "\x00"), "true"))
			require.NoError(t, err, "%s", words)
			p, err := New(r, at, Identity{})
			require.NoError(t, err)
			var hosts []string
			for i := range p.Nodes.Len() {
				host := p.Nodes.At(i).Host
				if slots := p.Nodes.At(i).Slots; slots > 0 {
					host += ":" + string(rune('0'+slots))
				}
				hosts = append(hosts, host)
			}
			require.Equal(t, in.hosts, strings.Join(hosts, " "))
		})
	}
	_, err := planOf(t, "true")
	require.NoError(t, err, "outside")
}
