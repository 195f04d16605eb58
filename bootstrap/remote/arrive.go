package remote

import (
	"os"
	"path/filepath"

	"ibrun/internal/build"
)

// Arrive cleans up after the script that has started this process. It changes from the folder of the binary to the home
// directory. If the binary was sent to a temporary folder, Arrive removes the folder and keeps the compressed binary
// open. If the binary was sent to the cache, Arrive removes old builds there. Errors are ignored, because the agent can
// run without these steps.
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
		_ = os.Remove(path) // the kernel keeps the file while it runs
		_ = os.Remove(dir)
	case filepath.Base(path) == cachedName():
		_ = os.Chdir(home())
		use(path + digestSuffix)
		if st, err := os.Stat(path + digestSuffix); err == nil && cached != "" {
			prune(dir, st.ModTime()) // the time of the file system, which can be a server's
		}
	}
}

// home returns the home directory of the user, or "/" if the variable HOME has no absolute path.
func home() string {
	if h := os.Getenv("HOME"); filepath.IsAbs(h) {
		return h
	}
	return "/"
}
