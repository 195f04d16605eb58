package cluster

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// places on a node are where a job could leave files.
var places = []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/root"}

// Files are the files on all nodes that a job could leave, as NODE:PATH. It enters no mount, since
// what is mounted below a node's own directories is shared: the module, for one.
func (c *Cluster) Files() map[string]bool {
	files := map[string]bool{}
	for _, node := range c.Nodes() {
		root := c.Root(node)
		for _, top := range places {
			var own, at unix.Stat_t
			base := root + top
			if unix.Stat(base, &own) != nil {
				continue
			}
			_ = filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
				if err != nil || unix.Lstat(path, &at) != nil {
					return nil // it ended with its job
				}
				if at.Dev != own.Dev {
					return fs.SkipDir
				}
				files[node+":"+strings.TrimPrefix(path, root)] = true
				return nil
			})
		}
	}
	return files
}

// Litter are the files that were not there before, sorted, but for the node's copy of ibrun, which
// stays on purpose.
func (c *Cluster) Litter(before map[string]bool) (found []string) {
	const cache = "/root/.cache/ibrun"
	for file := range c.Files() {
		_, path, _ := strings.Cut(file, ":")
		kept := path == filepath.Dir(cache) || path == cache ||
			strings.HasPrefix(path, cache+"/") && !strings.Contains(path, ".tmp.")
		if !before[file] && !kept {
			found = append(found, file)
		}
	}
	slices.Sort(found)
	return found
}
