package cluster

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// places lists the directories of a node in which a job could leave files.
var places = []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/root"}

// Files returns all files in places on all nodes, as NODE:PATH. It enters no mount point, because directories that are
// mounted there, such as the module, are shared between the nodes.
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
					return nil // The file has been removed since its directory was read.
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

// Litter returns the sorted files that Files finds now and that are missing in before. It omits the copy of ibrun in a
// node's cache, which is meant to stay for later jobs.
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
