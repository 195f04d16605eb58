package cluster

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// places are the directories of a node in which a job could leave files.
var places = []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/root"}

// Files returns the files on all nodes that a job could have left, as NODE:PATH. It enters no mount, since what is
// mounted below a node's own directories is shared, such as the module.
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
					return nil // the file has been removed meanwhile
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

// Litter returns, sorted, the files that were not there before. It leaves out the node's copy of ibrun, which stays on
// purpose.
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
