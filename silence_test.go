package ibrun_test

import (
	"go/parser"
	"go/token"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun"
	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

// linked are the packages of this module that a program gets with the package ibrun and that run in
// its process.
var linked = []string{
	".", "lazy", "lazy/peer", "fabric", "fabric/ib", "fabric/udp", "cgo/verbs", "bootstrap/rankctl", "topo",
	"topo/near",
}

// prints returns what a file uses that writes where the program writes, or "".
func prints(t *testing.T, f source) string {
	file, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, 0)
	require.NoError(t, err)
	for pkg, names := range map[string][]string{
		"os":   {"Stdout", "Stderr"},
		"fmt":  {"Print", "Printf", "Println"},
		"log":  {"Print", "Printf", "Println", "Fatal", "Fatalf", "Default"},
		"slog": {"Default", "Debug", "Info", "Warn", "Error"},
	} {
		if name := calls(file, pkg, names); name != "" {
			return pkg + "." + name
		}
	}
	return ""
}

// The standard streams are the program's.
func TestLibraryPrintsNothing(t *testing.T) {
	for _, f := range sources(t) {
		if slices.Contains(linked, path.Dir(f.path)) && !strings.HasSuffix(f.path, "_test.go") {
			require.Empty(t, prints(t, f), f.path)
		}
	}
	bad := source{"lazy/a.go", "package lazy\n\nimport \"os\"\n\nvar to = os.Stderr\n"}
	require.Equal(t, "os.Stderr", prints(t, bad))
}

// records is a writer for a logger, which hands over one record at a time.
type records chan string

func (r records) Write(p []byte) (int, error) {
	r <- string(p)
	return len(p), nil
}

// What the user of ibrun is to know goes to the agent; the program's logger has it too.
func TestLogger(t *testing.T) {
	t.Setenv("IBRUN_HCA", "")
	t.Setenv("IBRUN_LIBIBVERBS", "libibverbs-missing.so.1")
	log := make(records, 8)
	with := ibrun.WithLogger(slog.New(slog.NewTextHandler(log, nil)))
	_, agent := withAgent(t, 1, job.Transport{Fabric: "ib"}, with)
	notice, ok := agent.next().(rankwire.Notice)
	require.True(t, ok)
	require.Regexp(t, `^--fabric ib is not used by a job of one node, and would not work: .`, notice.Text)
	require.Contains(t, <-log, "level=WARN msg="+strconv.Quote(notice.Text))
	require.Contains(t, <-log, `level=INFO msg="joined the job" rank=0 size=1 job=j`)
	agent.conn.Close()
	require.Contains(t, <-log, `level=ERROR msg="the agent of this node is lost"`)
}
