package bind

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// TestDocumented holds the tables of docs/placement.md against the code.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/placement.md")
	require.NoError(t, err)
	m := machine(shapes["opteron"])

	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 17)
	for i, row := range rows {
		require.Equal(t, fmt.Sprint(i+1), row[1])
		expected := row[2]
		if strings.HasPrefix(expected, "not bound") {
			expected = "note: oversubscribed"
		}
		holds(t, m, "n="+row[1]+" | "+expected)
	}

	words := strings.NewReplacer("--map-by ppr:2:package", "ppr=2 map=package", "--map-by ", "map=", "--bind-to ",
		"bind=", "--rank-by fill", "fill", "--rank-by ", "rank=", ":PE=", " pe=")
	rows = regexp.MustCompile("(?m)^\\| `(--.*)` \\| (\\d+) \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, 13)
	for _, row := range rows {
		holds(t, m, "n="+row[2]+" "+words.Replace(row[1])+" | "+row[3])
	}
	_, _, err = Places(m, job.Binding{PE: 64}, 3, 0)
	require.ErrorContains(t, err, "3 ranks")
	require.Contains(t, string(text), "    "+err.Error()+"\n")
}
