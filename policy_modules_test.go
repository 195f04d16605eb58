package ibrun_test

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shipped are the modules of others that cmd/ibrun has inside, and what for. Every node runs that
// binary, so go.mod may have tools and libraries of tests, but nothing of them gets in here.
var shipped = map[string]string{
	"github.com/Mellanox/rdmamap":    "the RDMA devices of a PCI device, and their files",
	"github.com/vishvananda/netlink": "the kernel's TCP sockets and RDMA links",
	"github.com/vishvananda/netns":   "what netlink needs",
	"golang.org/x/crypto":            "the native ssh client",
	"golang.org/x/sys":               "system calls that package syscall does not have",
}

// unlisted compares the modules that are linked with those that may be.
func unlisted(allowed map[string]string, found []string) (faults []string) {
	for _, name := range found {
		if allowed[name] == "" && name != module {
			faults = append(faults, name+" is linked: say in policy_modules_test.go what for")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if !slices.Contains(found, name) {
			faults = append(faults, name+" is not linked any more: strike it from the list")
		}
	}
	return faults
}

// TestPolicyModules: what is shipped has no other modules inside than those that are listed.
func TestPolicyModules(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/ibrun")
	list.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build
	list.Stderr = os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	found := strings.Fields(string(out))
	slices.Sort(found)
	found = slices.Compact(found)
	require.Empty(t, unlisted(shipped, found))

	more := append(slices.Clone(found), "honnef.co/go/tools")
	require.Equal(t, []string{"honnef.co/go/tools is linked: say in policy_modules_test.go what for"},
		unlisted(shipped, more))
	require.Len(t, unlisted(shipped, []string{module}), len(shipped), "an entry that nothing needs")
}
