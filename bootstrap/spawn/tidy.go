package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ibrun/internal/safefile"
)

// tidy removes what ranks of Open MPI leave behind when they do not end by
// MPI_Finalize: the file of shared memory of each, and its folder in the
// session's. All ranks have ended. The folder above is every job's, and stays:
// one that starts may be about to use it. Files of UCX, which MPICH has too, go as well.
//
// All of it lies where other users can put something of the same name, so names
// are exact, and only what is this user's is opened and removed.
func (s *Set) tidy() {
	s.PMIx.removeFolder()
	s.tidyRanks()
	safefile.Unused(safefile.SharedMemory)
}

func (s *Set) tidyRanks() {
	s.mu.Lock()
	offered := s.mpi.file != nil
	s.mu.Unlock()
	if !offered {
		return
	}
	id, uid := openJob(s.cfg.Job.ID), os.Geteuid()
	for _, host := range hostNames() {
		var segments, folders []string
		for _, r := range s.ranks {
			segments = append(segments, fmt.Sprintf("vader_segment.%s.%d.%x.%d", host, uid, id, r.local))
			folders = append(folders, num(r.rank))
		}
		removeFrom(safefile.SharedMemory, nil, segments, (*safefile.Dir).Remove)
		session := []string{fmt.Sprintf("ompi.%s.%d", host, uid), fmt.Sprintf("jf.%d", id>>16), strconv.Itoa(int(id & 0xffff))}
		for _, tmp := range s.folders() {
			if _, err := os.Lstat(filepath.Join(tmp, session[0])); err != nil {
				continue // as nearly always
			}
			removeFrom(tmp, session, folders, (*safefile.Dir).RemoveAll)
			// A directory that still contains files of other agents' ranks is not empty, so Remove leaves it there.
			removeFrom(tmp, session[:2], session[2:], (*safefile.Dir).Remove)
			removeFrom(tmp, session[:1], session[1:2], (*safefile.Dir).Remove)
		}
	}
}

// removeFrom removes what has one of the names in a directory, which is found
// by opening one in the other. Most are not there.
func removeFrom(base string, way, names []string, remove func(*safefile.Dir, string) error) {
	dir, err := safefile.Open(base, way...)
	if err != nil {
		return
	}
	defer dir.Close()
	for _, name := range names {
		_ = remove(dir, name)
	}
}

// hostNames are those by which Open MPI may call this host: it cuts what follows
// the first dot, unless it was told to keep that (orte_keep_fqdn_hostnames).
func hostNames() []string {
	name, err := os.Hostname()
	if err != nil {
		return nil
	}
	if short, _, cut := strings.Cut(name, "."); cut {
		return []string{name, short}
	}
	return []string{name}
}

// folders are where Open MPI may have made its session's: what it reads to find
// one is in the environment of the ranks.
func (s *Set) folders() []string {
	list := []string{"/tmp"}
	for _, entries := range [][]string{os.Environ(), s.ranks[0].program.Env} {
		for _, e := range entries {
			if name, dir, _ := strings.Cut(e, "="); (name == "TMPDIR" || name == "TEMP" || name == "TMP") && filepath.IsAbs(dir) && dir != "/tmp" {
				list = append(list, filepath.Clean(dir))
			}
		}
	}
	return list
}
