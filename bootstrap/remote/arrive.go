package remote

import (
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/build"
)

// Arrive is what an agent does first about how it came to its node: it leaves the
// folder that the script entered, removes what was made for it alone, and keeps
// the cache small. Nothing of that can fail a launch.
func Arrive() {
	path := build.Path()
	dir := filepath.Dir(path)
	shipped, cached := os.Getenv("IBRUN_SHIPPED_TO"), os.Getenv("IBRUN_CACHED")
	os.Unsetenv("IBRUN_SHIPPED_TO")
	os.Unsetenv("IBRUN_CACHED")
	switch {
	case shipped != "" && shipped == dir:
		_ = os.Chdir(home())
		arrivedPacked, _ = openOwn(path + packedSuffix)
		_ = os.Remove(path + packedSuffix)
		_ = os.Remove(path) // it lives on as long as it runs
		_ = os.Remove(dir)
	case filepath.Base(path) == cachedName():
		_ = os.Chdir(home())
		use(path + digestSuffix)
		if st, err := os.Stat(path + digestSuffix); err == nil && cached != "" {
			prune(dir, st.ModTime()) // by the clock of the files, which may be a server's
		}
	}
}

// home is where a session begins.
func home() string {
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return h
	}
	return "/"
}

// digestSuffix ends the name of the file beside a cached binary that says what
// the binary was when its digest was taken.
const digestSuffix = ".sum"

// What is kept of a cache. A binary that runs must not go, because on a network
// file system the other nodes lose it: one is kept for as long as a job may run.
const (
	keepAlways = 8                   // the builds that were used last,
	keepLately = 24 * time.Hour      // besides those of the last day,
	keepLonger = 30 * 24 * time.Hour // and no others after a month
	keepParts  = time.Hour           // parts of a binary, whose session was killed
	useEvery   = 6 * time.Hour       // how exact "used last" is
)

// use marks a cached binary as used, seldom enough to cost nothing. The mark is
// the time of its digest's file: its own would make it another file.
func use(digest string) {
	if st, err := os.Stat(digest); err == nil && time.Since(st.ModTime()) > useEvery {
		_ = unix.UtimesNano(digest, []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}})
	}
}

// named reports whether a file is called what the script calls it: a beginning
// and so many characters of a kind.
func named(file, begin string, n int, kind string) bool {
	rest, found := strings.CutPrefix(file, begin)
	return found && len(rest) == n && strings.Trim(rest, kind) == ""
}

const (
	hexDigits    = "0123456789abcdef"
	alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // of mktemp
)

// prune removes from a cache what is not to be kept. Files of other names are not
// the script's.
func prune(dir string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	last := map[string]time.Duration{} // how long ago each build was used
	for _, e := range entries {
		switch name := e.Name(); {
		case named(strings.TrimSuffix(name, ".z"), ".tmp.", 10, alphanumeric) && age(e, now) > keepParts:
			_ = os.Remove(filepath.Join(dir, name))
		case named(strings.TrimSuffix(name, packedSuffix), "ibrun-", 16, hexDigits):
			build := strings.TrimSuffix(name, packedSuffix)
			used := age(e, now)
			if st, err := os.Stat(filepath.Join(dir, build+digestSuffix)); err == nil {
				used = now.Sub(st.ModTime())
			}
			if before, found := last[build]; !found || used < before {
				last[build] = used
			}
		}
	}
	delete(last, cachedName())
	builds := slices.SortedFunc(maps.Keys(last), func(a, b string) int { return cmp.Compare(last[a], last[b]) })
	for i, build := range builds {
		if last[build] > keepLonger || last[build] > keepLately && i >= keepAlways-1 { // this build is one of them
			for _, suffix := range []string{"", digestSuffix, packedSuffix} {
				_ = os.Remove(filepath.Join(dir, build+suffix))
			}
		}
	}
}

// age is how long ago a file was written; 0 if it is gone.
func age(e fs.DirEntry, now time.Time) time.Duration {
	st, err := e.Info()
	if err != nil {
		return 0
	}
	return now.Sub(st.ModTime())
}
