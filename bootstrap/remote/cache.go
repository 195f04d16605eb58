package remote

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ibrun/internal/build"

	"golang.org/x/sys/unix"
)

// packedSuffix is appended to the name of a binary to get the name of its compressed form in the same folder.
const packedSuffix = ".gz"

// digestSuffix ends the name of the file beside a cached binary that says what
// the binary was when its digest was taken.
const digestSuffix = ".sum"

// cachedName is the name of this build in a cache.
func cachedName() string { return "ibrun-" + build.ID() }

// cacheDir returns the path of ibrun's folder in the user's cache directory, or "" if that directory is not known.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "ibrun")
}

// openOwn opens a file for reading. It returns an error unless the file is regular, not empty, owned by this user, and
// writable by no other user.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG ||
		int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 || st.Size == 0 {
		f.Close()
		return nil, errors.Join(err, unix.EPERM)
	}
	return f, nil
}

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

// prune removes old binaries from the cache dir, with their digests and compressed forms, and parts of binaries whose
// session was killed. It leaves files with other names, which the script has not made.
func prune(dir string, now time.Time) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	last := map[string]time.Duration{} // by build: time since its last use
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
		if last[build] > keepLonger || last[build] > keepLately && i >= keepAlways-1 { // -1 for this build
			for _, suffix := range []string{"", digestSuffix, packedSuffix} {
				_ = os.Remove(filepath.Join(dir, build+suffix))
			}
		}
	}
}

// named reports whether a file has a name as the script makes it: begin, followed by n characters of the set kind.
func named(file, begin string, n int, kind string) bool {
	rest, found := strings.CutPrefix(file, begin)
	return found && len(rest) == n && strings.Trim(rest, kind) == ""
}

const (
	hexDigits    = "0123456789abcdef"
	alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // of mktemp
)

// age is how long ago a file was written; 0 if it is gone.
func age(e fs.DirEntry, now time.Time) time.Duration {
	st, err := e.Info()
	if err != nil {
		return 0
	}
	return now.Sub(st.ModTime())
}
