package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ibrun/internal/job"
	"ibrun/internal/libpmi"
)

// plainWord refuses what can name no device.
func plainWord(_ *Request, v string) error {
	if v == "" || strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:,@-") != "" {
		return fmt.Errorf("%s names no device", Quote(v))
	}
	return nil
}

func isNumber(v string) bool { return v != "" && strings.Trim(v, "0123456789") == "" }

// setPerNode obeys -ppn, and --map-by ppr:N:node.
func (r *Request) setPerNode(v string) error {
	var n uint64
	if err := SetCount(&n, v, job.MaxRanks); err != nil {
		return err
	}
	return agree(&r.PerNode, n, "%d ranks per node contradict %d")
}

func (r *Request) setStdin(v string) error {
	var n uint64
	if v != "all" && v != "none" && v != "0" && SetCount(&n, v, 1<<32-1) != nil {
		return fmt.Errorf("%s is not known: write a rank, all or none", Quote(v))
	}
	return agree(&r.Stdin, v, "%s contradicts --stdin %s")
}

func (r *Request) setLauncher(v string) error {
	switch v {
	case "fork":
		v = "local"
	case "ssh", "rsh", "local", "auto", "slurm", "sge", "lsf", "flux", "pbs":
	default:
		return fmt.Errorf("%s is not in this version: write auto, ssh, rsh, local, slurm, sge, lsf, flux or pbs, or "+
			"give a command with --launcher-exec", Quote(v))
	}
	r.Launch.Launcher = v
	return nil
}

func (r *Request) setExec(v string) (err error) {
	r.Launch.Exec, err = Split(v)
	if err == nil && (len(r.Launch.Exec) == 0 || r.Launch.Exec[0] == "") {
		err = errors.New("no command is named")
	}
	return err
}

func (r *Request) setAgentPath(v string) error {
	if v != "" && (!job.ShellSafe(v) || v[0] != '/') {
		return fmt.Errorf("agent path %q: write an absolute path of letters, digits and /._-+@%%:,= only", v)
	}
	r.Launch.AgentPath = v
	return nil
}

func (r *Request) addArgs(v string) error {
	words, err := Split(v)
	r.Launch.Args = append(r.Launch.Args, words...)
	return err
}

// fileName takes the name of a file that ibrun itself writes.
func fileName(to *string, v string) error {
	if v == "" || strings.IndexByte(v, 0) >= 0 {
		return errors.New("no file is named")
	}
	*to = v
	return nil
}

func (r *Request) setFanout(v string) error {
	r.fanout = v
	return SetCount(new(uint64), v, 1<<20)
}

func (r *Request) setBatch(v string) error {
	return SetCount(&r.Launch.Batch, v, 1<<16)
}

// openMPI obeys --mca KEY VALUE: the few that mean something to ibrun, and
// the others for the program, as mpirun does.
func (r *Request) openMPI(v string) error {
	key, val, _ := strings.Cut(v, "=")
	if !IsName(key) {
		return fmt.Errorf("%s is not the name of a setting", Quote(key))
	}
	yes := val != "0" && val != "false" && val != "no"
	switch key {
	case "plm_rsh_agent":
		return r.setExec(val)
	case "plm_rsh_args":
		return r.addArgs(val)
	case "plm_rsh_num_concurrent":
		return r.setBatch(val)
	case "routed_radix":
		return r.setFanout(val)
	case "orte_tag_output":
		r.Label = yes
	case "orte_timestamp_output":
		r.Timestamp = yes
	case "rmaps_base_oversubscribe":
		r.Oversubscribe = yes
	default:
		r.mca = append(r.mca, key)
	}
	r.Env.Sets = append(r.Env.Sets, "OMPI_MCA_"+v)
	return nil
}

// pattern checks the pattern of a per-rank file.
func pattern(to *string, v string) error {
	_, err := job.Expand(v,
		func(letter byte, _ int) (string, bool) { return "", strings.IndexByte("rhtjx", letter) >= 0 })
	if err != nil {
		return fmt.Errorf("file pattern %s: %w: after %% stands r, h, t, j, x or %%", Quote(v), err)
	}
	if v == "" || strings.IndexByte(v, 0) >= 0 {
		return fmt.Errorf("file pattern %s names no file", Quote(v))
	}
	*to = v
	return nil
}

// outFile is pattern for output, with srun's words for what is no file.
func outFile(to *string, v string) error {
	switch {
	case v == "none":
		v = "/dev/null"
	case v == "all":
		*to = ""
		return nil
	case isNumber(v):
		return fmt.Errorf("%s is a rank to srun and is not taken: write ./%s for a file of that name", v, v)
	}
	return pattern(to, v)
}

func (r *Request) setMPI(v string) error {
	r.MPI = map[string]job.MPI{
		"auto": job.MPIAuto, "mpich": job.MPIPlain, "pmi": job.MPIPlain, "pmi2": job.MPIPlain, "openmpi": job.MPIOpen,
		"pmix": job.MPIPMIx, "charm": job.MPICharm, "none": job.MPINone,
	}[v]
	r.MPIGiven = ""
	if v != "auto" && v != "none" {
		r.MPIGiven = "--mpi " + v
	}
	if r.MPI == job.MPIOpen && libpmi.Image() == nil {
		return libpmi.ErrNone
	}
	return nil
}

// setCCSPort takes the number of a port, of which 0 is any that is free.
func (r *Request) setCCSPort(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return fmt.Errorf("%s is no port: write a number from 0, which is any, to 65535", Quote(v))
	}
	r.CCSPort = new(uint16(n))
	return nil
}

// setMaxRestarts takes N or N/T.
func (r *Request) setMaxRestarts(v string) error {
	number, within, bounded := strings.Cut(v, "/")
	n, err := strconv.ParseUint(number, 10, 31)
	if err == nil && bounded {
		err = SetDuration(&r.RestartsWithin, within)
	}
	if err != nil || bounded && r.RestartsWithin == 0 {
		return fmt.Errorf("%s is no number of restarts: write 3, or 3/10m for 3 within any 10 minutes",
			Quote(v))
	}
	r.MaxRestarts, r.mostGiven = int(n), true
	return nil
}
