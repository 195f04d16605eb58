package plan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/plain"
)

// nodeLocal are names, as globs, whose values mean something on one node only.
// They are not forwarded; ranks see their own node's. docs/cli.md lists them.
var nodeLocal = []string{
	"HOSTNAME", "HOST", "SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR",
	"XDG_SESSION_*", "XDG_SEAT", "XDG_VTNR",
	"DBUS_*", "TERM_PROGRAM*", "TERM_SESSION_ID", "TMUX*", "STY", "WINDOW", "WINDOWID", "SHLVL", "_",
	"OLDPWD", "MAIL", "GPG_AGENT_INFO",
	"GPG_TTY", "KRB5CCNAME", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*", "TMPDIR",
}

// stale are names, as globs, by which another launcher told its own process
// who it was. A rank of ours is not that process.
var stale = []string{
	"PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "OMPI_COMM_WORLD_*", "FLUX_JOB_ID", "FLUX_PMI_*", "MV2_COMM_WORLD_*",
	"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "IBRUN_*", "OMPI_MCA_ess", "OMPI_MCA_ess_base_*",
	"OMPI_MCA_orte_*_uri", "OMPI_MCA_orte_*_session_dir", "OMPI_FILE_LOCATION",
	// By orte_launch a rank of Open MPI 4 takes its namespace for a number of mpirun's, ours for
	// 0. Two jobs of one host then meet in the same files of shared memory.
	"OMPI_MCA_orte_launch", "OMPI_MCA_orte_ess_*", "OMPI_MCA_orte_app_num", "OMPI_MCA_orte_num_nodes",
	"OMPI_MCA_orte_bound_at_launch", "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_initial_wdir",
	"OMPI_MCA_num_procs", "OMPI_UNIVERSE_SIZE", "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS", "OMPI_APP_*",
	"OMPI_COMMAND", "OMPI_ARGV", "OMPI_WORLD_*", "PRTE_LAUNCHED",
	// What a resource manager told the process on the first node: a program that takes its number
	// from SLURM_PROCID would be number 0 everywhere.
	"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURMD_NODENAME",
	"SLURM_CPUS_ON_NODE", "SLURM_TOPOLOGY_ADDR*", "SLURM_STEP*", "SLURM_SRUN_COMM_*", "SLURM_LAUNCH_NODE_IPADDR",
	"SLURM_CPU_BIND*", "SLURM_MEM_BIND*", "SLURM_PMI*", "SLURM_PTY_*", "PBS_TASKNUM", "PBS_NODENUM", "PBS_VNODENUM",
	"LSF_PM_TASKID", "LS_JOBPID", "FLUX_TASK_*", "FLUX_JOB_SIZE", "FLUX_JOB_NNODES", "FLUX_JOB_TMPDIR",
	"PALS_RANKID", "PALS_LOCAL_RANKID", "PALS_NODEID",
}

// forwarded returns what of env goes to ranks, and which names are left to the nodes: those of all
// nodes, and those that a resource manager has set for this one.
func forwarded(e *cli.EnvironRules, env, own, managed []string) (forward, drop []string) {
	local := slices.Concat(nodeLocal, managed)
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "":
		case match(e.Always, name), match(e.Chosen, name):
			forward = append(forward, entry)
		case e.Limited, match(local, name), match(stale, name) && name != libraryVariable:
		default:
			forward = append(forward, entry)
		}
	}
	forward = append(append(forward, e.Sets...), own...)
	for _, g := range local {
		if !slices.Contains(e.Always, g) {
			drop = append(drop, g)
		}
	}
	if e.Limited {
		// A program without these finds nothing; the node's own are the least.
		drop = append(drop, "PATH", "HOME", "USER", "LOGNAME", "SHELL")
	}
	return forward, drop
}

func match(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(g string) bool {
		begin, open := strings.CutSuffix(g, "*")
		if !strings.ContainsAny(begin, `*?[\`) && !strings.Contains(name, "/") { // all of ours: thousands of pairs
			return name == g && !open || open && strings.HasPrefix(name, begin)
		}
		ok, _ := path.Match(g, name)
		return ok
	})
}

// missing names what -x and -envlist ask for and env has not.
func missing(e *cli.EnvironRules, env []string) (warnings []string) {
	for _, g := range slices.Concat(e.Always, e.Chosen) {
		found := slices.ContainsFunc(env, func(entry string) bool {
			name, _, _ := strings.Cut(entry, "=")
			return match([]string{g}, name)
		})
		if !found {
			warnings = append(warnings, fmt.Sprintf("%s is not set here, so it is not forwarded", plain.Text(g)))
		}
	}
	return warnings
}

// readNames are the variables of ours in the user's environment that ibrun reads, or cgo/tool/libi.
var readNames = []string{"IBRUN_TASKS_PER_NODE", libraryVariable, "IBRUN_GDB", "IBRUN_LIBI_ARGS"}

// libraryVariable names another libibverbs to the ranks (package cgo/verbs, which this program does
// without).
const libraryVariable = "IBRUN_LIBIBVERBS"

// strangeKnobs names variables that look like ibrun's and are not read.
func strangeKnobs(env []string) (warnings []string) {
	given := []string{"RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE", "NODES", "HOST", "JOB_ID", "APPNUM", "FD",
		"HCA", "CAPTURES", "SHIPPED_TO", "RESTART"}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		short, ours := strings.CutPrefix(name, "IBRUN_")
		if !ours || slices.Contains(readNames, name) || slices.Contains(given, short) ||
			strings.HasPrefix(short, "TEST_") {
			continue
		}
		best := slices.MinFunc(readNames,
			func(a, b string) int { return cli.Distance(name, a) - cli.Distance(name, b) })
		warnings = append(warnings, fmt.Sprintf("%s is set and means nothing to ibrun; did you mean %s?",
			plain.Text(name), best))
	}
	return warnings
}
