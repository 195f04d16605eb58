package doctor

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
)

// library is the file that programs load to use verbs.
const library = "libibverbs.so.1"

// usual are folders that loaders know without a cache: glibc's and musl's.
var usual = []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

// find is the path of the library that the loader would take: LD_LIBRARY_PATH,
// then its cache, then its usual folders (ld.so(8)). What is for another
// processor is passed over, as the loader does.
func (n Examine) find() string {
	var paths []string
	for _, dir := range strings.FieldsFunc(n.Libs, func(c rune) bool { return c == ':' || c == ';' }) {
		paths = append(paths, path.Join("/", dir, library))
	}
	paths = append(paths, cached([]byte(n.text("etc/ld.so.cache")))...)
	for _, dir := range usual {
		paths = append(paths, dir+"/"+library)
	}
	for _, p := range paths {
		if n.loads(p) {
			return p
		}
	}
	return ""
}

// cached are the paths of the library in ld.so.cache, of which only the
// strings matter: each entry's path stands between two NULs.
func cached(cache []byte) (paths []string) {
	for text := range bytes.SplitSeq(cache, []byte{0}) {
		if at := bytes.IndexByte(text, '/'); at >= 0 && path.Base(string(text)) == library {
			paths = append(paths, path.Clean(string(text[at:])))
		}
	}
	return paths
}

// processors are the numbers of ELF for uname's names (elf(5), e_machine).
var processors = map[string]uint16{"x86_64": 62, "aarch64": 183, "i686": 3}

// loads reports whether a file is a library for this processor.
func (n Examine) loads(name string) bool {
	f, err := n.Files.Open(strings.TrimPrefix(name, "/"))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 20)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:4]) != "\x7fELF" {
		return false
	}
	want, known := processors[n.Machine]
	return !known || binary.NativeEndian.Uint16(head[18:]) == want
}

// modules are those of the kernel's that programs need, of which one may be
// missing while others are there.
var modules = []string{"ib_core", "ib_uverbs", "ib_umad", "rdma_cm", "rdma_ucm", "ib_ipoib", "rdma_rxe"}

func (n Examine) verbs() Verbs {
	v := Verbs{ABI: n.text("sys/class/infiniband_verbs/abi_version"), Library: n.find(), Modules: []string{},
		Devices: []DeviceFile{}}
	for _, m := range modules {
		if _, err := fs.Stat(n.Files, "sys/module/"+m); err == nil {
			v.Modules = append(v.Modules, m)
		}
	}
	files, _ := fs.ReadDir(n.Files, "dev/infiniband")
	for _, f := range files {
		d := DeviceFile{Path: "/dev/infiniband/" + f.Name()}
		if f.IsDir() {
			continue
		}
		if err := n.Open(d.Path); err != nil {
			d.Fault = innermost(err)
		}
		v.Devices = append(v.Devices, d)
	}
	all, err := n.Listed()
	if err != nil {
		v.Deaf = innermost(err)
	}
	v.Listed = list(all)
	sort.Slice(v.Listed, func(i, j int) bool { return v.Listed[i].Name < v.Listed[j].Name })
	return v
}
