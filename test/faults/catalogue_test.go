package faults

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
	"ibrun/test/rota"
	"ibrun/test/vcluster/cluster"
)

var (
	whole = flag.Bool("whole", false, "all cases of the catalogue, those that other packages show too, and the table")
	match = flag.String("case", "", "the cases that have this in their names")
)

// catalogue has all cases.
func catalogue() []entry {
	return slices.Concat(inputCases(), launchCases(), runningCases(), attackCases(), elsewhere())
}

// Packages of tests.
const (
	e2e    = "test/e2e"
	ssh    = "test/ssh"
	attack = "test/attack"
	sim    = "test/sim"
)

// elsewhere are cases that need more than one job and one fault.
func elsewhere() (cases []entry) {
	for _, c := range [][4]string{
		{"A", "any option with any odd value, host files damaged at random", "test/faults", "TestInputs"},
		{"A", "program of another machine, cut short, no program", e2e, "TestNoProgram"},
		{"B", "host key changed, revoked, of an authority; password asked for", "test/login", "TestSameVerdict"},
		{"B", "csh, fish, dash", ssh, "TestLoginShells"},
		{"B", "no /bin/sh, little memory, a shell that crashes", ssh, "TestCauses"},
		{"B", "/tmp noexec, and other places of the copy", ssh, "TestShipping"},
		{"B", "root killed, or Ctrl-C, while the binary is copied", ssh, "TestInterruptedWhileShipping"},
		{"B", "parent without a job for its child", ssh, "TestNoLaunch"},
		{"B", "low limit of open files", ssh, "TestLimitOfFiles"},
		{"B", "exec, directory or program on a dead file server", ssh, "TestHungStart"},
		{"B", "spare takes the place of a dead node", "bootstrap/core", "TestScenarios/slots-spare"},
		{"C", "rank out of memory", e2e, "TestOutOfMemory"},
		{"C", "rank exits 0 while others are in a collective", e2e, "TestWorldEndsBeforeACollective"},
		{"C", "rank killed in an allreduce", ssh, "TestKilledInAllreduce"},
		{"C", "agent killed in an allreduce", ssh, "TestAgentKilledInAllreduce"},
		{"C", "rank in uninterruptible sleep", ssh, "TestUnkillable"},
		{"C", "first cause among many failures", e2e, "TestWhoIsToBlame"},
		{"C", "any process at any time, any tree, over ssh", "test/faults", "TestFaults"},
		{"C", "agent stopped on a node that is cut off", ssh, "TestStoppedAndCut"},
		{"C", "root stopped for long", "test/jobcontrol", "TestStoppedForLong"},
		{"C", "killed while the job is stopped", "test/jobcontrol", "TestKilledWhileStopped"},
		{"C", "cut in one direction, ranks that exchange", ssh, "TestCutOneWay"},
		{"C", "node of a rank cut off, lazy connections", ssh, "TestLazyNodeCut"},
		{"C", "rank killed: peers learn who", ssh, "TestLazyRankKilled"},
		{"C", "any agent at any time, any tree", sim, "TestKillAnyAgent"},
		{"C", "any four faults at any time, any tree", sim, "TestRandomFaults"},
		{"C", "terminal in the background", "test/jobcontrol", "TestBackground"},
		{"C", "spawned job leaves nothing", e2e, "TestSpawnLeavesNothing"},
		{"D", "frames: random, cut, nested, on every decoder", "bootstrap/wire", "TestRefused"},
		{"D", "an agent that lies about ranks and nodes", "bootstrap/core", "TestLies"},
		{"D", "a rank that writes nonsense to its agent", e2e, "TestOffenderIsRefused"},
		{"D", "nonsense in PMI", e2e, "TestPMINonsense"},
		{"D", "datagrams, connections, searches and files of strangers", attack, "TestAttacks"},
		{"D", "a program of others at the parent's path", ssh, "TestOthersFileOnANode"},
		{"D", "messages hold no control bytes", e2e, "TestMessagesArePlain"},
		{"D", "PMI port: strangers", e2e, "TestPortStrangers"},
	} {
		cases = append(cases, entry{class: c[0], fault: c[1], in: c[2], test: c[3]})
	}
	return cases
}

// TestCatalogue: the table has at least the cases that were promised, each once, and each test that
// it names is there.
func TestCatalogue(t *testing.T) {
	sources, seen, own := map[string]string{}, map[string]bool{}, 0
	for _, e := range catalogue() {
		require.False(t, seen[e.fault], "%s is there twice", e.fault)
		seen[e.fault] = true
		if e.in == "" {
			own++
			continue
		}
		if _, read := sources[e.in]; !read {
			files, err := filepath.Glob(filepath.Join("../..", e.in, "*_test.go"))
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				sources[e.in] += string(text)
			}
		}
		name, _, _ := strings.Cut(e.test, "/")
		require.Contains(t, sources[e.in], "func "+name+"(t *testing.T)", "%s: %s", e.fault, e.in)
	}
	require.GreaterOrEqual(t, own, 90, "cases with five checks each")
}

// third are the cases of a turn: of each class a third.
func third(cases []entry, turn uint64) (chosen []entry) {
	for _, class := range []string{"A", "B", "C", "D"} {
		var of []entry
		for _, e := range cases {
			if e.class == class {
				of = append(of, e)
			}
		}
		chosen = append(chosen, rota.Third(turn, of)...)
	}
	return chosen
}

// chosen are the cases of this run.
func chosen(t *testing.T) (cases []entry) {
	for _, e := range catalogue() {
		if e.in == "" && strings.Contains(e.String(), *match) {
			cases = append(cases, e)
		}
	}
	if *whole || *match != "" {
		return cases
	}
	turn, given := rota.Turn(t)
	if !given {
		turn = uint64(time.Now().Unix() / (24 * 60 * 60)) // another one each day
		t.Logf("%s=%d", rota.Variable, turn)
	}
	return third(cases, turn)
}

// TestCases plays the cases of the catalogue, each with five checks.
func TestCases(t *testing.T) {
	if os.Geteuid() != 0 {
		skip.Because(t, cluster.ErrNotRoot.Error())
	}
	t.Parallel()
	cases := chosen(t)
	slices.SortStableFunc(cases, func(a, b entry) int { return int(b.clean - a.clean) }) // the long ones first
	queue := make(chan entry, len(cases))
	for _, e := range cases {
		queue <- e
	}
	close(queue)
	table := &table{began: time.Now()}
	var work sync.WaitGroup
	for range min(*stages, (len(cases)+3)/4) {
		work.Go(func() {
			s, err := newSite(t)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.close()
			for e := range queue {
				table.add(t, e, s.enact(&e, e.words(s)))
			}
		})
	}
	work.Wait()
	require.Len(t, table.rows, len(cases), "cases that were played")
	if *whole {
		table.elsewhere(t)
	}
	if *whole || *match != "" {
		table.print(t)
	}
}
