// Package costs stores the measured costs of launches in a file of the user. Later launches are planned with these
// costs. A file that cannot be read counts as empty, and one that cannot be written stays as it is, so that no job
// fails because of it.
package costs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Path is where the costs of earlier launches are kept; empty: nowhere. A
// XDG_CACHE_HOME that is not absolute does not count (XDG Base Directory
// Specification 0.8).
func Path(env []string) string {
	if dir, ok := job.LookupVariable(env, "XDG_CACHE_HOME"); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "ibrun", "costs.json")
	}
	if home, ok := job.LookupVariable(env, "HOME"); ok && filepath.IsAbs(home) {
		return filepath.Join(home, ".cache", "ibrun", "costs.json")
	}
	return ""
}

// Precision is the precision of costs for the user.
const Precision = 10 * time.Microsecond

// mostCostCache is how much of a file is read: no cost cache is longer.
const mostCostCache = 1<<20 + 1

// Read reads the costs of earlier launches. Whatever goes wrong, there were none.
func Read(name string) tree.CostCache {
	f, err := os.Open(name)
	if err != nil {
		return tree.ParseCostCache(nil)
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostCostCache))
	return tree.ParseCostCache(text)
}

// Note adds a launch at a site to the costs that are kept. It is a memory and not
// part of the job: what cannot be written is not.
func Note(name, site string, l *tree.Launch) {
	fit, ok := l.Fit()
	if !ok || name == "" {
		return
	}
	costs := Read(name) // again: another job may have ended meanwhile
	if !costs.Note(l.Launcher, site, fit) {
		return
	}
	dir := filepath.Dir(name)
	if os.MkdirAll(dir, 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(dir, ".costs")
	if err != nil {
		return
	}
	_, err = f.Write(costs.Bytes())
	if err2 := f.Close(); err != nil || err2 != nil || os.Rename(f.Name(), name) != nil {
		_ = os.Remove(f.Name())
	}
}

// Show prints what is kept.
func Show(w io.Writer, name string) {
	costs := Read(name)
	if len(costs.Places) == 0 {
		fmt.Fprintf(w,
			"no launch was measured yet (at least %d sessions by one parent are needed): trees are planned with %s\n",
			tree.EnoughSessions, tree.CostText(tree.DefaultCost))
		return
	}
	fmt.Fprintf(w, "%-24s %-20s %8s %8s %12s %12s %6s\n", "launcher", "site", "launches", "sessions", "SEQ", "REM",
		"window")
	for _, s := range costs.Places {
		c, window, sessions := s.Middle()
		fmt.Fprintf(w, "%-24s %-20s %8d %8d %12s %12s %6d\n", plain.Text(s.Launcher), plain.Text(s.Site),
			len(s.Entries), sessions, c.SEQ.Round(Precision), c.REM.Round(Precision), window)
	}
	fmt.Fprintf(w, "kept in %s\n", plain.Text(name))
}
