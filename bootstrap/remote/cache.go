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

// digestSuffix is appended to the name of a cached binary to get the name of a file beside it. The script install
// writes the file when it has checked the SHA-256 digest of the binary. The file contains the owner, mode, inode, size
// and time of change of the binary, so that a later job sees whether the binary has changed since.
const digestSuffix = ".sum"

// cachedName returns the file name of this build's binary in a cache.
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

// These limits tell prune which binaries stay in a cache. A binary that is in use must not be removed, because the
// other nodes lose it on a network file system. So a binary stays for at least as long as most jobs run.
const (
	keepAlways = 8                   // number of the most recently used builds that stay until keepLonger
	keepLately = 24 * time.Hour      // builds used within this time stay
	keepLonger = 30 * 24 * time.Hour // builds not used for this time are removed
	keepParts  = time.Hour           // temporary files older than this are removed
	useEvery   = 6 * time.Hour       // precision of the recorded time of use
)

// use records that a cached binary is used now, at most once per useEvery. It sets the modification time of the file at
// path digest: the binary's digest file, or its compressed form. A change of the binary's own times would also change
// its time of change, and the script would take it for a changed file.
func use(digest string) {
	if st, err := os.Stat(digest); err == nil && time.Since(st.ModTime()) > useEvery {
		_ = unix.UtimesNano(digest, []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}})
	}
}

// prune removes old binaries from the cache folder dir, with their digest files and compressed forms. It also removes
// temporary files of sessions that were killed. It does not touch files with names that the script install and packInto
// do not use.
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
		// The current build is not in builds, but counts as one of keepAlways.
		if last[build] > keepLonger || last[build] > keepLately && i >= keepAlways-1 {
			for _, suffix := range []string{"", digestSuffix, packedSuffix} {
				_ = os.Remove(filepath.Join(dir, build+suffix))
			}
		}
	}
}

// named reports whether the file name file consists of the prefix begin and n characters, all of which occur in kind.
func named(file, begin string, n int, kind string) bool {
	rest, found := strings.CutPrefix(file, begin)
	return found && len(rest) == n && strings.Trim(rest, kind) == ""
}

const (
	hexDigits    = "0123456789abcdef"
	alphanumeric = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // characters that mktemp uses
)

// age returns the time from the last modification of the file e until now, or 0 if the file no longer exists.
func age(e fs.DirEntry, now time.Time) time.Duration {
	st, err := e.Info()
	if err != nil {
		return 0
	}
	return now.Sub(st.ModTime())
}
