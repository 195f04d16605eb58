// Package capture keeps what topo reads of a machine in a tar, and opens such
// tars and folders in place of a machine: for bug reports, dry runs and tests.
// It never unpacks to disk, follows no link out of a capture, and interprets
// nothing: that is topo's.
//
// A capture has numbers of processors, memory and devices; names and PCI
// addresses of HCAs and network interfaces; GIDs, in which the hardware address
// of a port can be seen; the path of this process's cgroup, which may name a
// user, a job or a container; the load. Of the mounts it has only those of
// cgroups, of proc/self/status only what may be used. It has no serial number,
// no address of an interface, nothing of other processes, and no environment.
package capture

import (
	"io"
	"io/fs"

	"ibrun/topo"
)

// Bounds of a capture, for what is written and for what is opened. Those of
// machines with thousands of CPUs are far below.
const (
	mostFile    = 16 << 20  // bytes of a file: proc/cpuinfo of 8,192 CPUs
	mostText    = 64 << 20  // bytes of all files
	mostTar     = 512 << 20 // bytes of an uncompressed tar, headers included
	mostEntries = 1 << 18   // files, folders and links
	mostPath    = 4096      // bytes of a path: PATH_MAX
)

// Write writes a tar of what topo.Read reads of a machine, and of what the kernel
// says besides of processors, caches and memory: os.DirFS("/") for the live one,
// or what Open returned. Files that cannot be read are empty or left out.
// The same machine gives the same bytes, apart from its load and free memory. It
// fails if to does, or if more was read than a capture may hold.
func Write(to io.Writer, fsys fs.FS) error {
	r := NewRecorder(fsys)
	topo.Read(r)
	r.complete()
	return r.WriteTar(to)
}
