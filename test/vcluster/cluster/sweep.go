package cluster

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// runSweep removes the cgroups and the directory dir of a cluster when its standard input ends. This happens when the
// process that made the cluster calls Close or ends. runSweep also thaws frozen hosts, so that their inits can end.
func runSweep(dir string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = io.Copy(io.Discard, os.Stdin)
	id := filepath.Base(dir)
	if !strings.HasPrefix(id, "vcluster-") {
		return 2 // not a directory that this package made
	}
	groupsOf(id).remove()
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return 0
		}
	}
	return 1
}

// liftLimits raises those kernel limits that a large cluster would reach. It ignores errors, and never restores the
// limits, because other clusters on the machine may need them.
func liftLimits() {
	for path, want := range map[string]string{
		"/proc/sys/kernel/pid_max":                    "4194304",
		"/proc/sys/net/core/somaxconn":                "4096",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh1": "16384",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh2": "65536",
		"/proc/sys/net/ipv4/neigh/default/gc_thresh3": "131072",
		"/proc/sys/kernel/pty/max":                    "16384",
		"/proc/sys/fs/inotify/max_user_instances":     "8192",
		"/proc/sys/kernel/keys/root_maxkeys":          "1000000",
	} {
		text, err := os.ReadFile(path)
		have := strings.TrimSpace(string(text))
		if err == nil && (len(have) < len(want) || len(have) == len(want) && have < want) {
			_ = os.WriteFile(path, []byte(want), 0)
		}
	}
}
