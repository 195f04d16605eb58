package remote

import (
	"os"
	"path/filepath"

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
