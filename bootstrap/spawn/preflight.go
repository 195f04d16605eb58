package spawn

import (
	"fmt"
	"os"

	"ibrun/internal/exit"
	"ibrun/internal/job"
)

// Preflight looks for directory and program on this machine, since what is
// missing here is most likely missing everywhere.
func Preflight(p job.Program) error {
	const hint = "; if it is on the nodes only, say --no-preflight"
	if st, err := os.Stat(p.Dir); err != nil {
		return exit.Usagef("working directory %s: %v%s", p.Dir, exit.Cause(err), hint)
	} else if !st.IsDir() {
		return exit.Usagef("working directory %s is not a directory%s", p.Dir, hint)
	}
	_, err := FindProgram(p.Argv[0], p.Dir, p.Env)
	if code := exit.Code(err); err != nil && code == exit.NotFound {
		return exit.With(code, fmt.Errorf("%w%s", err, hint))
	}
	return err
}
