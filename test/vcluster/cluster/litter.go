package cluster

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// jobDirs lists the directories of a node in which a job could leave files.
var jobDirs = []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/root"}

// Files returns the files on all nodes in directories where a job could leave some, as NODE:PATH. It does not enter
// mount points below these directories, because what is mounted there is shared between the nodes.
func (c *Cluster) Files() map[string]bool {
	files := map[string]bool{}
	for _, node := range c.Nodes() {
		root := c.Root(node)
		for _, top := range jobDirs {
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

// Litter returns, in order, the files that Files finds and that are not in before. It omits the copy of ibrun in the
// cache of a node, which later jobs use.
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
