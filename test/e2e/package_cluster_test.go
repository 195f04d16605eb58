//go:build cluster

package e2e

import (
	"os"
	"os/exec"
	"testing"

	"ibrun/test/skip"
)

// hideHeader is a shell script that hides the header infiniband/verbs.h and then runs go build with the arguments of
// the script. The build cache may contain package cgo/verbs as compiled with the header. The harmless compiler flag -e
// makes go build compile the package again, because the cached one was compiled without this flag.
const hideHeader = `[ ! -d /usr/include/infiniband ] || mount -t tmpfs tmpfs /usr/include/infiniband
exec go build -gcflags=ibrun/cgo/verbs=-e "$@"`

// TestModuleWithCompiler builds a program of another module with gcc, once with the header infiniband/verbs.h and once
// without it. The program must have InfiniBand support only if the header exists, and must run as a job in both cases.
func TestModuleWithCompiler(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		skip.Because(t, "gcc is missing (Debian: gcc)")
	}
	t.Setenv("CC", "gcc")
	t.Setenv("CGO_ENABLED", "1")
	t.Run("with verbs.h", func(t *testing.T) {
		if exec.Command("gcc", "-E", "-include", "infiniband/verbs.h", "-x", "c", os.DevNull).Run() != nil {
			skip.Because(t, "infiniband/verbs.h is missing (Debian: libibverbs-dev)")
		}
		requireSolver(t, buildSolver(t, "go", "build"), "1", "")
	})
	t.Run("without verbs.h", func(t *testing.T) {
		if os.Getuid() != 0 {
			skip.Because(t, "mounting needs root")
		}
		requireSolver(t, buildSolver(t, "unshare", "-m", "sh", "-c", hideHeader, "sh"), "1", noHeader)
	})
}
