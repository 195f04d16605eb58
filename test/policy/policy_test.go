// Package policy tests whether the repository follows those of its rules that no linter can check. The rules that the
// linter checks are in .golangci.yml.
package policy

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the folder of the repository.
const root = "../.."

// forbiddenImports lists pairs of regular expressions for package paths. Packages that match from must not import
// packages that match to, directly or indirectly, for the reason why. The linter checks only direct imports.
var forbiddenImports = []struct{ from, to, why string }{
	{`^ibrun/fabric/`, `^ibrun/(internal/job|bootstrap)/`, "the data plane runs without the launcher and its job"},
	{`^ibrun/lazy/`, `^ibrun/bootstrap/`, "messages between ranks do not depend on a launcher"},
	{`^ibrun/bootstrap/`, `^ibrun/(fabric/(ib|udp)|lazy)/`, "an agent opens no endpoint and sends no message"},
	{`^ibrun/cmd/ibrun/internal/doctor/`, `^ibrun/fabric/udp/`, "the doctor finds the network interface for data, but sends no data"},
	{`^ibrun/cmd/ibrun/`, `^ibrun/cgo/`, "ibrun is one static binary"},
}

// allowed matches the paths of packages from other modules that cmd/ibrun may import, directly or indirectly.
// Tests may import further modules.
var allowed = regexp.MustCompile(`^(github\.com/(Mellanox/rdmamap|vishvananda/net(link|ns))|golang\.org/x/(crypto|sys))/`)

// linked matches the paths of packages of this module that package ibrun may import, directly or indirectly. An
// application that imports ibrun is linked with these packages.
var linked = regexp.MustCompile(`^ibrun/(bootstrap/wire/(frame|rankwire)|cgo/verbs|fabric|internal|lazy|topo)/`)

// pkg is a package of this module, as go list -json describes it. Deps lists its direct and indirect imports.
type pkg struct {
	ImportPath     string
	CgoFiles, Deps []string
}

// checkImports returns a message for each import that forbiddenImports, allowed or linked forbids, and for each package
// outside the folder cgo that uses cgo.
func checkImports(packages []pkg) (faults []string) {
	for _, p := range packages {
		if len(p.CgoFiles) > 0 && !strings.HasPrefix(p.ImportPath, "ibrun/cgo/") {
			faults = append(faults, p.ImportPath+` imports "C" outside cgo`)
		}
		deps := strings.Join(p.Deps, "/\n") + "/\n"
		for _, a := range forbiddenImports {
			if regexp.MustCompile(a.from).MatchString(p.ImportPath + "/") {
				for _, to := range regexp.MustCompile("(?m)"+a.to).FindAllString(deps, -1) {
					faults = append(faults, p.ImportPath+" reaches "+to+": "+a.why)
				}
			}
		}
		for _, dep := range p.Deps {
			first, _, _ := strings.Cut(dep, "/")
			if p.ImportPath == "ibrun/cmd/ibrun" && strings.Contains(first, ".") && !allowed.MatchString(dep+"/") {
				faults = append(faults, "bin/ibrun has "+dep+" inside, whose module is not in the list")
			}
			if p.ImportPath == "ibrun" && first == "ibrun" && !linked.MatchString(dep+"/") {
				faults = append(faults, "package ibrun imports "+dep+", which no application may link")
			}
		}
	}
	return faults
}

func TestPackagesReachOnlyWhatTheyMay(t *testing.T) {
	list := exec.Command("go", "list", "-json=ImportPath,CgoFiles,Deps", "./...")
	list.Dir, list.Env, list.Stderr = root, append(os.Environ(), "CGO_ENABLED=1"), os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	packages := []pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p pkg
		require.NoError(t, d.Decode(&p))
		packages = append(packages, p)
	}
	require.Greater(t, len(packages), 50)
	require.Empty(t, strings.Join(checkImports(packages), "\n"))
	require.Len(t, checkImports([]pkg{
		{"ibrun/fabric/new", nil, []string{"ibrun/internal/x", "ibrun/internal/job"}},
		{"ibrun/lazy", []string{"a.go"}, nil}, {"ibrun/cgo/verbs", []string{"a.go"}, nil},
		{"ibrun/cmd/ibrun", nil, []string{"ibrun/cgo/verbs", "example.org/x", "golang.org/x/sys/unix", "net"}},
		{"ibrun", nil, []string{"ibrun/bootstrap/wire/rankwire", "ibrun/bootstrap/wire", "ibrun/lazy/peer", "net"}},
		{"ibrun/lazy/new", nil, []string{"ibrun/bootstrap/wire/frame", "ibrun/fabric"}},
		{"ibrun/bootstrap/agent", nil, []string{"ibrun/fabric", "ibrun/fabric/udp"}},
		{"ibrun/cmd/ibrun/internal/doctor", nil, []string{"ibrun/fabric/udp"}},
	}), 8, "each rule must find its violation")
}

var (
	labelOfPath = regexp.MustCompile(`^(?:test/(cluster|mpi|ib|managers)/)?(?:.*_(cluster|mpi|ib|managers|soak)_test\.go)?`)
	labelOfTag  = regexp.MustCompile(`\b(?:cluster|mpi|ib|managers|soak)\b`)
	constraint  = regexp.MustCompile(`(?m)\A//go:build .*$`)
	// writesProgram matches calls of os.WriteFile that write an executable file. The start of such a file may fail
	// (ETXTBSY), because a process that another goroutine forks in the meantime may still have it open for writing.
	writesProgram  = regexp.MustCompile(`os\.WriteFile\(.*, 0o?[0-7]*[1357][0-7]*\)`)
	packageComment = regexp.MustCompile(`(?m)^(//|\*/).*\npackage `)
	link           = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
)

// checkTest returns a message for each rule that the test file name violates. text is the text of the file.
func checkTest(name, text string) (faults []string) {
	tags := labelOfTag.FindAllString(constraint.FindString(text), -1)
	m := labelOfPath.FindStringSubmatch(name)
	label := cmp.Or(m[2], m[1])
	if (label != "" || len(tags) > 0) && !slices.Contains(tags, label) {
		faults = append(faults, name+": the path and the build tag name different labels")
	}
	if writesProgram.MatchString(text) {
		faults = append(faults, name+": a program is written by os.WriteFile: use executable.Write")
	}
	return faults
}

// files returns the text of each file of the repository whose name ends in suffix.
func files(t *testing.T, suffix string) map[string]string {
	texts := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if slices.Contains([]string{".git", "bin", "out"}, name) {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(name, suffix) {
			var text []byte
			text, err = os.ReadFile(path.Join(root, name))
			texts[name] = string(text)
		}
		return err
	}))
	return texts
}

func TestLabelsAndPackageComments(t *testing.T) {
	var faults []string
	commented := map[string]string{}
	for name, text := range files(t, ".go") {
		if strings.HasSuffix(name, "_test.go") {
			faults = append(faults, checkTest(name, text)...)
		} else if folder := path.Dir(name); packageComment.MatchString(text) {
			if other := commented[folder]; other != "" {
				faults = append(faults, name+" and "+other+" have a package comment, and go doc shows both")
			}
			commented[folder] = name
		}
	}
	require.Empty(t, strings.Join(faults, "\n"))
	for name, text := range map[string]string{
		"test/cluster/a_test.go": "package a", "a_mpi_test.go": "//go:build cluster\n",
		"a_test.go": "//go:build linux && soak\n", "b_test.go": "os." + "WriteFile(a, nil, 0o755)",
	} {
		require.Len(t, checkTest(name, text), 1, name)
	}
	require.Empty(t, checkTest("test/cluster/a_soak_test.go", "//go:build soak\n"))
}

func exists(name string) bool { _, err := os.Stat(path.Join(root, name)); return err == nil }

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	testFile = regexp.MustCompile("`([\\w.-]+/[\\w/.-]+)`")
	finding  = regexp.MustCompile(`^\| (\d+|how \d|show \d)([a-z]?) \|[^|]*\| ([^|]*)`)
)

// checkFindings checks page, the text of docs/dev/findings.md, which lists findings of reviews. It returns a message
// for each finding without a test or without an entry in changelog, and for each test or file that page names but that
// does not exist. tests is the text of all test files.
func checkFindings(page, changelog, tests string) (faults []string) {
	list := ""
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "## List "); ok {
			list, _, _ = strings.Cut(name, ":")
		}
		if m := finding.FindStringSubmatch(line); m != nil {
			number := regexp.MustCompile(`\b` + list + `\.` + m[1] + `\b`)
			if !strings.Contains(m[1], "ow ") && !number.MatchString(changelog) {
				faults = append(faults, "CHANGELOG.md has no entry for finding "+list+"."+m[1])
			}
			if !strings.Contains(m[3], "`") {
				faults = append(faults, "finding "+list+"."+m[1]+m[2]+" has no test")
			}
		}
		for _, m := range testName.FindAllStringSubmatch(line, -1) {
			if !strings.Contains(tests, "\nfunc "+m[1]+"(") {
				faults = append(faults, "no such test: "+m[1])
			}
		}
		for _, m := range testFile.FindAllStringSubmatch(line, -1) {
			if top, _, _ := strings.Cut(m[1], "/"); exists(top) && !exists(m[1]) {
				faults = append(faults, "no such file: "+m[1])
			}
		}
	}
	return faults
}

func TestDocumentsNameWhatExists(t *testing.T) {
	documents := files(t, ".md")
	for name, text := range documents {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			require.True(t, exists(path.Join(path.Dir(name), m[1])), "%s: %s does not exist", name, m[1])
		}
	}
	tests := strings.Join(slices.Collect(maps.Values(files(t, "_test.go"))), "\n")
	page := documents["docs/dev/findings.md"]
	require.Empty(t, strings.Join(checkFindings(page, documents["CHANGELOG.md"], tests), "\n"))
	page = "## List 7: a\n| 1a | b | `TestOld` in `test/gone` |\n| 2 | c | none |\n| how 1 | d | `x` |\n"
	require.Len(t, checkFindings(page, "(7.1)", "\nfunc TestNew("), 4, "each rule can fail")
}
