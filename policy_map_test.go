package ibrun_test

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const mapFile = "docs/map.md"

var (
	mapRow  = regexp.MustCompile("^\\| `([^`]+)` \\|")
	mapPath = regexp.MustCompile("`([a-z0-9_/.-]+\\.(?:go|md|c|h))`")
	mapStep = regexp.MustCompile("^[0-9]+\\. `([^`]+)`")
)

// checkMap compares the map with the directories that hold Go files. A leg of a walk is what stands
// between two lines that begin neither a step nor its continuation; its steps keep to the floor of
// the one before or to a lower one.
func checkMap(text string, dirs []string, exists func(name string) bool) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	rows := map[string]bool{}
	floor, returning := testFloor, false
	for line := range strings.Lines(text) {
		if row := mapRow.FindStringSubmatch(line); row != nil {
			dir := row[1]
			if dir == module {
				dir = "."
			}
			if rows[dir] {
				fault("%s has two rows", row[1])
			}
			if !slices.Contains(dirs, dir) {
				fault("%s has a row, and is no package", row[1])
			}
			rows[dir] = true
		}
		for _, name := range mapPath.FindAllStringSubmatch(line, -1) {
			if !exists(name[1]) {
				fault("no such file: %s", name[1])
			}
		}
		step := mapStep.FindStringSubmatch(line)
		switch {
		case step != nil:
			to, ok := floorOf(floors, path.Dir(step[1]))
			if ok && to > floor && !returning {
				fault("%s is on a higher floor than the step before", step[1])
			}
			floor = to
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(line, " "):
			floor, returning = testFloor, strings.Contains(line, "(results return)")
		}
	}
	for _, dir := range dirs {
		if !rows[dir] {
			fault("package %s has no row", dir)
		}
	}
	return faults
}

var (
	mapFirst = regexp.MustCompile(`^[0-9]+\. `)
	mapName  = regexp.MustCompile("`([A-Za-z]+(?:\\.[A-Z][A-Za-z]*)?)`")
)

// checkSteps finds names in the steps of walks that no file of their step has: what the walk tells
// of has moved.
func checkSteps(text string, read func(name string) string) (faults []string) {
	var step string
	check := func() {
		var code strings.Builder
		for _, name := range mapPath.FindAllStringSubmatch(step, -1) {
			code.WriteString(read(name[1]) + "\n")
		}
		for _, name := range mapName.FindAllStringSubmatch(step, -1) {
			last := name[1][strings.LastIndexByte(name[1], '.')+1:]
			if !regexp.MustCompile(`\b` + last + `\b`).MatchString(code.String()) {
				faults = append(faults, fmt.Sprintf("%s is in no file of its step: %s", name[1],
					strings.TrimSpace(step)))
			}
		}
		step = ""
	}
	for line := range strings.Lines(text) {
		switch {
		case mapFirst.MatchString(line):
			check()
			step = line
		case step != "" && strings.HasPrefix(line, " "):
			step += line
		default:
			check()
		}
	}
	check()
	return faults
}

var (
	docPath = regexp.MustCompile("`([A-Za-z0-9_.-]+/[A-Za-z0-9_/.-]+\\.(?:go|md|c|h|txt|svg|json))`")
	docLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	dangle  = regexp.MustCompile(`\b(job\.Spec|warnLater|facts/|[Ii]ssue [0-9])`)
)

// checkReferences finds what a document names and is not there: files in backticks, relative links,
// and what readers cannot have.
func checkReferences(f source, exists func(name string) bool) (faults []string) {
	for _, m := range docPath.FindAllStringSubmatch(f.text, -1) {
		if top, _, _ := strings.Cut(m[1], "/"); top != "bin" && exists(top) && !exists(m[1]) {
			faults = append(faults, fmt.Sprintf("%s: no such file: %s", f.path, m[1]))
		}
	}
	for _, m := range docLink.FindAllStringSubmatch(f.text, -1) {
		if !exists(path.Join(path.Dir(f.path), m[1])) {
			faults = append(faults, fmt.Sprintf("%s: no such file: %s", f.path, m[1]))
		}
	}
	for _, m := range dangle.FindAllString(f.text, -1) {
		faults = append(faults, fmt.Sprintf("%s: %q leads nowhere", f.path, m))
	}
	return faults
}

func TestPolicyReferences(t *testing.T) {
	for _, f := range documents(t) {
		require.Empty(t, checkReferences(f, exists))
	}
}

// TestPolicyReferencesFail shows each rule of references failing.
func TestPolicyReferencesFail(t *testing.T) {
	for text, want := range map[string]string{
		"see `job/gone.go`":   "docs/a.md: no such file: job/gone.go",
		"see [b](gone.md#c)":  "docs/a.md: no such file: gone.md",
		"see issue 14":        "docs/a.md: \"issue 1\" leads nowhere",
		"a `job.Spec`":        "docs/a.md: \"job.Spec\" leads nowhere",
		"as in facts/lazy.md": "docs/a.md: \"facts/\" leads nowhere",
	} {
		require.Equal(t, []string{want}, checkReferences(source{"docs/a.md", text},
			func(name string) bool { return name == "job" }))
	}
	text := "see `job/job.go`, [b](b.md#c), [d](https://e.org) `infiniband/verbs.h`, `bin/ibrun.h`"
	require.Empty(t, checkReferences(source{"docs/a.md", text}, func(name string) bool {
		return !strings.HasPrefix(name, "infiniband") && name != "bin/ibrun.h"
	}))
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func packages(files []source) (dirs []string) {
	for _, f := range files {
		dirs = append(dirs, path.Dir(f.path))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func TestPolicyMap(t *testing.T) {
	text, err := os.ReadFile(mapFile)
	require.NoError(t, err)
	require.Empty(t, checkMap(string(text), packages(sources(t)), exists))
	require.GreaterOrEqual(t, strings.Count(string(text), "\n1. "), 3, "three walks")
	require.Empty(t, strings.Join(checkSteps(string(text), func(name string) string {
		code, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(code)
	}), "\n"))
}

// TestPolicyStepsFail shows a name of a step that is not where the step says.
func TestPolicyStepsFail(t *testing.T) {
	files := map[string]string{"a/a.go": "func Here() {}\n", "b.go": "func (w *World) Send() {}\n"}
	read := func(name string) string { return files[name] }
	require.Empty(t, checkSteps("1. `a/a.go`: `Here` calls\n   `World.Send` of `b.go`.\n\n`Elsewhere` is no step.\n",
		read))
	require.Equal(t, []string{"World.Send is in no file of its step: 2. `a/a.go`: `World.Send`.",
		"Her is in no file of its step: 1. `a/a.go`: `Her`."},
		checkSteps("1. `b.go`: `Send`.\n2. `a/a.go`: `World.Send`.\n\n1. `a/a.go`: `Her`.\n", read))
}

// TestPolicyMapFails shows each rule of the map failing on a text made for it.
func TestPolicyMapFails(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no row":    {"| `job` | values |\n", "package lazy has no row"},
		"two rows":  {"| `job` | a |\n| `lazy` | b |\n| `job` | c |\n", "job has two rows"},
		"stale row": {"| `job` | a |\n| `lazy` | b |\n| `gone` | c |\n", "gone has a row, and is no package"},
		"no file":   {"| `job` | a |\n| `lazy` | b |\n\nIn `job/gone.go`.\n", "no such file: job/gone.go"},
		"goes up": {"| `job` | a |\n| `lazy` | b |\n\n1. `job/a.go`: x\n   y\n2. `lazy/a.go`: z\n",
			"lazy/a.go is on a higher floor than the step before"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := checkMap(c.text, []string{"job", "lazy"},
				func(name string) bool { return path.Base(name) == "a.go" })
			require.Equal(t, []string{c.want}, faults)
		})
	}
	returning := "| `job` | a |\n\nBack (results return):\n\n1. `job/a.go`: x\n2. `lazy/a.go`: z\n"
	require.Empty(t, checkMap(returning, []string{"job"}, func(string) bool { return true }))
}
