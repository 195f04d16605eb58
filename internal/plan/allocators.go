package plan

import (
	"fmt"
	"strings"

	"ibrun/internal/environ"
	"ibrun/internal/exit"
	"ibrun/internal/options"
)

// allocator is a way in which nodes are given to a process: a variable of a resource manager,
// or one by which another launcher is told its host file. ibrun does not read any of them yet.
type allocator struct {
	word     string // of -rmk
	name     string
	variable string // set inside such an allocation
	write    string // the option that names its hosts, for a POSIX shell; empty: nothing that is known to work
}

// allocators are in the order in which they count: a manager's list before the mere sign that a
// job runs, and before the host files of launchers, which users set themselves.
var allocators = []allocator{
	{"slurm", "Slurm", "SLURM_JOB_NODELIST", `--hosts "$SLURM_JOB_NODELIST"`},
	{"slurm", "Slurm", "SLURM_NODELIST", `--hosts "$SLURM_NODELIST"`},
	{"slurm", "Slurm", "SLURM_JOB_NODELIST_HET_GROUP_0", ""}, // see write
	{"cobalt", "Cobalt", "COBALT_NODEFILE", `-f "$COBALT_NODEFILE"`},
	{"pbs", "PBS", "PBS_NODEFILE", `-f "$PBS_NODEFILE"`},
	{"lsf", "LSF", "LSB_DJOB_HOSTFILE", `-f "$LSB_DJOB_HOSTFILE"`},
	{"lsf", "LSF", "LSB_MCPU_HOSTS", `--hosts "$(echo $LSB_MCPU_HOSTS | xargs -n 2 | tr ' ' : | paste -sd, -)"`},
	{"lsf", "LSF", "LSB_HOSTS", `--hosts "$(echo $LSB_HOSTS | tr ' ' ,)"`},
	{"sge", "Grid Engine", "PE_HOSTFILE", `--hosts "$(awk '{print $1 ":" $2}' "$PE_HOSTFILE" | paste -sd, -)"`},
	{"ll", "LoadLeveler", "LOADL_HOSTFILE", `-f "$LOADL_HOSTFILE"`},
	{"oar", "OAR", "OAR_NODEFILE", `-f "$OAR_NODEFILE"`},
	{"oar", "OAR", "OAR_NODE_FILE", `-f "$OAR_NODE_FILE"`},
	{"oar", "OAR", "OAR_FILE_NODES", `-f "$OAR_FILE_NODES"`},
	{"flux", "Flux", "FLUX_URI", `--hosts "$(flux getattr hostlist)"`},
	{"slurm", "Slurm", "SLURM_JOB_ID", `--hosts "$(squeue -h -j "$SLURM_JOB_ID" -o %N)"`},
	{"slurm", "Slurm", "SLURM_JOBID", `--hosts "$(squeue -h -j "$SLURM_JOBID" -o %N)"`},
	{"pbs", "PBS", "PBS_JOBID", ""},
	{"lsf", "LSF", "LSB_JOBID", ""},
	{"pals", "PALS", "PALS_APID", ""},
	{"", "hydra", "HYDRA_HOST_FILE", `-f "$HYDRA_HOST_FILE"`},
	{"", "Intel MPI", "I_MPI_HYDRA_HOST_FILE", `-f "$I_MPI_HYDRA_HOST_FILE"`},
	{"", "Open MPI", "OMPI_MCA_orte_default_hostfile", `-f "$OMPI_MCA_orte_default_hostfile"`},
	{"", "Open MPI", "PRTE_MCA_prte_default_hostfile", `-f "$PRTE_MCA_prte_default_hostfile"`},
}

// unread is an error for those who named no hosts where a resource manager has given nodes: one
// rank on this machine is not what they meant.
func unread(r *options.Request, env []string) error {
	if r.Launch.Launcher == "local" || r.Manager == "user" || r.Manager == "none" {
		return nil
	}
	for _, a := range allocators {
		if r.Manager != "" && a.word != r.Manager {
			continue
		}
		if _, ok := environ.Lookup(env, a.variable); ok {
			return exit.Usagef("%s is set, so nodes come from %s, which this version does not read; "+
				"hint: write %s, or --hosts localhost for this machine alone", a.variable, a.name, a.option(env))
		}
	}
	if r.Manager != "" {
		return exit.Usagef("-rmk %s: none of the variables that it sets in its jobs is there; hint: name the hosts "+
			"with --hosts, or leave -rmk out", r.Manager)
	}
	return nil
}

// option is what names the hosts.
func (a allocator) option(env []string) string {
	if group, ok := strings.CutSuffix(a.variable, "_0"); ok {
		var groups []string
		for n := 0; ; n++ {
			name := fmt.Sprintf("%s_%d", group, n)
			if _, ok := environ.Lookup(env, name); !ok {
				break
			}
			groups = append(groups, "$"+name)
		}
		return `--hosts "` + strings.Join(groups, ",") + `"`
	}
	if a.write == "" {
		return "--hosts LIST with the nodes of the job"
	}
	return a.write
}
