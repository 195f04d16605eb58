package main

import (
	"errors"
	"fmt"
	"strings"

	"ibrun/internal/cmdline"
	"ibrun/internal/libpmi"
	"ibrun/job"
)

// plainWord refuses what can name no device.
func plainWord(_ *request, v string) error {
	if v == "" || strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:,@-") != "" {
		return fmt.Errorf("%s names no device", cmdline.Quote(v))
	}
	return nil
}

func isNumber(v string) bool { return v != "" && strings.Trim(v, "0123456789") == "" }

// setPerNode obeys -ppn, and --map-by ppr:N:node.
func (r *request) setPerNode(v string) error {
	var n uint64
	if err := count(&n, v, job.MaxRanks); err != nil {
		return err
	}
	if r.perNode != 0 && r.perNode != n {
		return fmt.Errorf("%d ranks per node contradict %d", n, r.perNode)
	}
	r.perNode = n
	return nil
}

func (r *request) setStdin(v string) error {
	var n uint64
	if v != "all" && v != "none" && v != "0" && count(&n, v, 1<<32-1) != nil {
		return fmt.Errorf("%s is not known: write a rank, all or none", cmdline.Quote(v))
	}
	if r.stdin != "" && r.stdin != v {
		return fmt.Errorf("%s contradicts --stdin %s", v, r.stdin)
	}
	r.stdin = v
	return nil
}

func (r *request) setLauncher(v string) error {
	switch v {
	case "fork":
		v = "local"
	case "ssh", "rsh", "local":
	default:
		return fmt.Errorf("%s is not in this version: write ssh, rsh or local, or give a command with --launcher-exec", cmdline.Quote(v))
	}
	r.launch.Launcher = v
	return nil
}

func (r *request) setExec(v string) (err error) {
	r.launch.Exec, err = cmdline.Split(v)
	if err == nil && (len(r.launch.Exec) == 0 || r.launch.Exec[0] == "") {
		err = errors.New("no command is named")
	}
	return err
}

func (r *request) addArgs(v string) error {
	words, err := cmdline.Split(v)
	r.launch.Args = append(r.launch.Args, words...)
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

func (r *request) setFanout(v string) error {
	var n uint64
	r.fanout = v
	return count(&n, v, 1<<20)
}

func (r *request) setBatch(v string) error {
	var n uint64
	err := count(&n, v, 1<<16)
	r.launch.Batch = uint32(n)
	return err
}

// openMPI obeys --mca KEY VALUE: the few that mean something to ibrun, and
// the others for the program, as mpirun does.
func (r *request) openMPI(v string) error {
	key, val, _ := strings.Cut(v, "=")
	if !cmdline.IsName(key) {
		return fmt.Errorf("%s is not the name of a setting", cmdline.Quote(key))
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
		r.label = yes
	case "orte_timestamp_output":
		r.timestamp = yes
	case "rmaps_base_oversubscribe":
		r.crowd = yes
	default:
		r.mca = append(r.mca, key)
	}
	r.env.sets = append(r.env.sets, "OMPI_MCA_"+v)
	return nil
}

// pattern checks the pattern of a per-rank file.
func pattern(to *string, v string) error {
	_, err := job.Expand(v, func(letter byte, _ int) (string, bool) { return "", strings.IndexByte("rhtjx", letter) >= 0 })
	if err != nil {
		return fmt.Errorf("file pattern %s: %w: after %% stands r, h, t, j, x or %%", cmdline.Quote(v), err)
	}
	if v == "" || strings.IndexByte(v, 0) >= 0 {
		return fmt.Errorf("file pattern %s names no file", cmdline.Quote(v))
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

// collides reports whether several ranks would write one file. perNode is the
// most ranks on one node.
func collides(file string, size, perNode uint32) bool {
	if size < 2 || file == "" || strings.HasPrefix(file, "/dev/") {
		return false
	}
	letters := job.Letters(file)
	host, local := strings.Contains(letters, "h"), strings.Contains(letters, "t")
	return !strings.Contains(letters, "r") && !(host && (local || perNode < 2)) && !(local && perNode == size)
}

// mpiWords are what --mpi takes.
var mpiWords = []string{"auto", "mpich", "openmpi", "pmi", "pmi2", "pmix", "none"}

func (r *request) setMPI(v string) error {
	r.toldMPI = ""
	switch v {
	case "auto":
		r.mpi = job.MPIAuto
	case "pmi", "pmi2", "mpich":
		r.mpi, r.toldMPI = job.MPIPlain, "--mpi "+v
	case "openmpi":
		r.toldMPI = "--mpi openmpi"
		if r.mpi = job.MPIOpen; libpmi.Image() == nil {
			return libpmi.ErrNone
		}
	case "pmix":
		r.warn("%s %s: %s", r.word, v, noPMIx)
	case "none":
		r.mpi = job.MPINone
	}
	return nil
}
