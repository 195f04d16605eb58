package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/wire/frame"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
)

func TestContradictions(t *testing.T) {
	refuses(t, map[string]string{
		"-n 2 --np 3 true":                         "--np 3 contradicts -n 2",
		"--timeout 5 --timeout 6 true":             "contradicts",
		"--ccs-auth keys true":                     "--ccs-auth is of --ccs-port",
		"--mpi none --pmi-port true":               "--mpi none contradicts --pmi-port",
		"--lazy=on --eager true":                   "--lazy=on contradicts",
		"-f x -H a true":                           "both name hosts",
		"-v -q true":                               "-v contradicts -q",
		"--keep-going -K true":                     "contradicts --keep-going",
		"--tree flat --fanout 3 true":              "kary:3",
		"--tree kary true":                         "fan-out",
		"-ppn 2 --map-by ppr:3:node true":          "contradict",
		"-genvall -genvnone true":                  "contradicts",
		"--stdin 0 --input f true":                 "contradicts --input",
		"--nolocal true":                           "leaves no host",
		"-n 1 true : -n 2":                         "no program after",
		"-n 2 --output=out true":                   "overwrite one file",
		"-n 2 --output=3 true":                     "./3",
		"--map-by moon true":                       "not known",
		"--rank-by moon true":                      "not known",
		"--cpu-bind map_cpu:x true":                "list of processors",
		"--cpu-bind moon true":                     "not known",
		"--bcast true":                             "not in this version",
		"--preload-binary true":                    "not in this version",
		"--record f true":                          "--record: it was removed; hint: write --trace-events FILE",
		"--replay f":                               "--replay: it was removed; hint: write --trace-events FILE",
		"--report d/x.svg true":                    "SVG files were removed; hint: write --report d/x.html",
		"--trace f --trace-events f true":          "--trace and --trace-events both write f",
		"--report f --trace-events f true":         "--report and --trace-events both write f",
		"-c 0 true":                                "whole number",
		"-p 2 true":                                "resource manager",
		"-N2 -H a,b,c true":                        "ranks per node",
		"--lunch-timeout 3 true":                   "did you mean --launch-timeout?",
		"--export=A,NONE true":                     "stands first",
		"-H a..b true":                             "empty part",
		"-H ../x true":                             "empty part",
		"-H a:0 true":                              "slots",
		"-H a:-1 true":                             "slots",
		"-H a:9223372036854775808 true":            "slots",
		"-H a[1-2000000] true":                     "more than",
		"-H " + strings.Repeat("a", 256) + " true": "at most 255",
	})
	for _, host := range []string{"a b", "$(x)", "a\x01", "a\nb", "`x`", "a'"} {
		_, err := planOf(t, "-H", host, "true")
		require.ErrorContains(t, err, "character", host)
	}
}

func TestTakenLines(t *testing.T) {
	for line, warned := range map[string]string{
		"-n 2 -n 2 true":                   "",
		"--tree kary --fanout 3 true":      "",
		"--map-by ppr:2:node true":         "",
		"--map-by slot:OVERSUBSCRIBE true": "",
		"-m block true":                    "",
		"--allow-run-as-root true":         "",
		"++ppn 4 true":                     "cores per rank",
		"task_affinity true":               "",
		"--mca btl self true":              "OMPI_MCA_*",
		"--mca orte_tag_output 1 true":     "",
		"-x NOSUCH true":                   "NOSUCH is not set",
		"-H a,b --exclude c true":          "no such host",
		"-H a:2:mlx5_0:1 true":             "",
		"-n 1 --output=out true":           "",
		"--mpi=pmix --bind-to=none --fabric=auto --lazy --iface=eth0,10.0.0.0/8 --stats=json --oversubscribe true": "",
		"-n 2 --output=/dev/null true": "",
		"-n 2 --output=o.%r true":      "",
	} {
		p := mustPlan(t, strings.Fields(line)...)
		if warned == "" {
			require.Empty(t, p.Warnings, line)
			continue
		}
		require.Len(t, p.Warnings, 1, line)
		require.Contains(t, p.Warnings[0], warned, line)
	}
	require.Equal(t, uint32(6), mustPlan(t, "-H", "a,b,c", "--map-by", "ppr:2:node", "true").Job.Size)
	require.Equal(t, 1, mustPlan(t, "-H", "a,localhost", "--nolocal", "true").Nodes.Len())
	require.Equal(t, "login1.cluster", mustPlan(t, "-H", "localhost,b", "true").Job.FirstHost)
	require.Contains(t, mustPlan(t, "--mca", "btl", "self", "true").Job.Programs[0].Env, "OMPI_MCA_btl=self")
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, big, none := filepath.Join(dir, "pipe"), filepath.Join(dir, "big"), filepath.Join(dir, "none")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.WriteFile(big, nil, 0o600))
	require.NoError(t, os.Truncate(big, 50<<20))
	require.NoError(t, os.WriteFile(none, []byte("a\n"), 0))
	for name, why := range map[string]string{pipe: "nobody writes", big: "50 MiB", dir: "directory",
		"/dev/null": "neither a file nor a pipe"} {
		for _, option := range []string{"-f", "-configfile"} {
			_, err := planOf(t, option, name, "--", "true")
			if option == "-configfile" {
				_, err = parse([]string{option, name})
			}
			require.ErrorContains(t, err, why, name)
			require.Equal(t, exit.Usage, exit.Code(err))
		}
	}
	if os.Geteuid() != 0 {
		_, err := planOf(t, "-f", none, "true")
		require.ErrorContains(t, err, "permission denied")
	}
}

// Pipes are read to their end, whoever comes first, in whatever pieces.
func TestHostsFromAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	wrote := make(chan error)
	go func() {
		f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
		for _, line := range []string{"a\n", "b\n", strings.Repeat("#\n", 200<<10)} {
			if err == nil {
				_, err = f.WriteString(line)
			}
		}
		f.Close()
		wrote <- err
	}()
	require.Equal(t, 2, mustPlan(t, "-f", pipe, "true").Nodes.Len())
	require.NoError(t, <-wrote)
}

// Names that do not fit into one message are refused.
func TestTooManyLongNames(t *testing.T) {
	const most = 1 << 20
	nodes := job.NewNodes(0, []job.Run{{Prefix: strings.Repeat("x", most), Count: 1, Ranks: 1}})
	err := (&Plan{Job: &job.Job{}, Nodes: nodes}).fits(frame.MaxSize - most)
	require.Equal(t, exit.Usage, exit.Code(err))
	require.ErrorContains(t, err,
		"1 host: their names take more than the 1 MiB that can be sent at once; write those")
}

func TestConfigFile(t *testing.T) {
	const text = "# programs\n-n 2 -env A 'x y' true 'a b'\n\n-n 3 true\n"
	r, err := cli.Parse([]string{"-v", "-configfile", "c"},
		func(string) ([]byte, error) { return []byte(text), nil })
	require.NoError(t, err)
	p, err := New(r, around(t), Identity{})
	require.NoError(t, err)
	require.Equal(t, uint32(5), p.Job.Size)
	require.Equal(t, []string{"true", "a b"}, p.Job.Programs[0].Argv)
	require.Contains(t, p.Job.Programs[0].Env, "A=x y")
	for bad, why := range map[string]string{
		"-n 2 'true":    "c:1: a ' is not closed",
		"\n--nosuch x":  "c:2: unknown option",
		"-n 1":          "c:1: no program",
		"-configfile d": "c:1: ",
		"true\x00":      "c:1: binary",
		"#":             "names no program",
	} {
		_, err := cli.Parse([]string{"-configfile", "c"}, func(string) ([]byte, error) { return []byte(bad), nil })
		require.ErrorContains(t, err, why, bad)
	}
}

func TestFromTheEnvironment(t *testing.T) {
	with := func(entry string, line ...string) (*Plan, error) {
		r, err := parse(append(line, "true"))
		require.NoError(t, err)
		at := around(t)
		at.Env = append(at.Env, entry)
		return New(r, at, Identity{})
	}
	p, err := with("MPIEXEC_TIMEOUT=7")
	require.NoError(t, err)
	require.Equal(t, 7*time.Second, p.Policy.Timeout)
	p, err = with("MPIEXEC_TIMEOUT=7", "--timeout", "9")
	require.NoError(t, err)
	require.Equal(t, 9*time.Second, p.Policy.Timeout)
	_, err = with("MPIEXEC_TIMEOUT=x")
	require.ErrorContains(t, err, "MPIEXEC_TIMEOUT")
	p, err = with("IBRUN_TASKS_PER_NODE=3", "-H", "a,b")
	require.NoError(t, err)
	require.Equal(t, uint32(6), p.Job.Size)
	_, err = with("IBRUN_TASKS_PER_NODE=0", "-H", "a,b")
	require.ErrorContains(t, err, "IBRUN_TASKS_PER_NODE")
	p, err = with("PMI_FD=9")
	require.NoError(t, err)
	require.NotContains(t, p.Job.Programs[0].Env, "PMI_FD=9")
}

func TestArgumentsAreBytes(t *testing.T) {
	words := []string{"true", "", "a b", "$(x)", "'\"`", "\n\t\xff", ":", "--", "-n", strings.Repeat("x", 128<<10)}
	require.Equal(t, words, mustPlan(t, append([]string{"-n", "2", "--"}, words...)...).Job.Programs[0].Argv)
}
