package plan

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
)

// output is the job's streams: the request's, with what only the plan can tell. srun's %x is the
// name of the job. mpirun's folder has a folder for each rank, whose number has as many digits as
// the largest one.
func (p *Plan) output(r *cli.Request, cwd string) job.Output {
	out := r.Output
	if dir := r.OutputDir; dir.Name != "" {
		// The name becomes a pattern, in which % must be written as %%.
		dir.Name = strings.ReplaceAll(absolute(dir.Name, cwd), "%", "%%")
		if !dir.NoJob {
			dir.Name = filepath.Join(dir.Name, "1")
		}
		digits := len(strconv.FormatUint(uint64(p.Nodes.Ranks()-1), 10))
		dir.Name = filepath.Join(dir.Name, fmt.Sprintf("rank.%%%dr", digits))
		out.StdoutFile, out.StderrFile = filepath.Join(dir.Name, "stdout"), filepath.Join(dir.Name, "stderr")
		if out.Merge {
			out.StderrFile = ""
		}
		out.Dirs, out.Copy = true, !dir.Alone
	}
	name := r.JobName
	if name == "" {
		name = filepath.Base(r.Segments[0].Argv[0])
	}
	for _, file := range []*string{&out.StdoutFile, &out.StderrFile, &out.StdinFile} {
		*file = job.Fill(*file, 'x', name)
	}
	return out
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

// files refuses patterns by which ranks would overwrite each other's output.
func (p *Plan) files(r *cli.Request) error {
	most := uint32(0)
	for _, run := range p.Nodes.Runs() {
		most = max(most, run.Ranks)
	}
	for option, file := range map[string]string{"--output": r.Output.StdoutFile, "--error": r.Output.StderrFile} {
		if collides(file, p.Nodes.Ranks(), most) {
			return exit.Usagef("%s %s: %d ranks would overwrite one file; write %%r for the rank into its name, or "+
				"send ibrun's own output to a file with >", option, file, p.Nodes.Ranks())
		}
	}
	return nil
}
