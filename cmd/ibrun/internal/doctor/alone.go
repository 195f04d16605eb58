package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds below which something is said. They are ours: small enough that a node
// which is set up with care passes them.
const (
	leastShared = 256 << 20 // bytes of /dev/shm; containers have 64 MiB by default, and MPI libraries want more
	leastFree   = 64 << 20  // bytes of /tmp
	leastFiles  = 1024      // open files
	leastLocked = 64 << 20  // bytes that verbs may lock: queues of some hundred peers and their buffers
	mostSkew    = 1.0       // seconds
)

// reached judges how a node is reached.
func (j *verdict) reached(n *Node) {
	if d := n.Fallback; d != nil {
		j.find(Warning, "launch", fmt.Sprintf("cannot be reached from %s (%s): %s; from where ibrun runs it can",
			d.From, d.Phase, d.Cause),
			"let nodes log in to each other: ssh "+d.From+" ssh HOST true; or start all from here: --tree flat", n.Name)
	}
	if l := n.Lost; l != nil {
		why := "was not examined"
		if l.From != "" {
			why += ": " + l.From + " could not reach it"
		}
		j.find(Error, "launch", fmt.Sprintf("%s (%s): %s", why, l.Phase, l.Cause),
			"see more: ssh -v HOST true; or leave it out: --exclude HOST", n.Name)
		return
	}
	if n.Report == nil {
		return
	}
	if c := n.Clock; c != nil && (c.Least > mostSkew || c.Most < -mostSkew) {
		way, by := "ahead of", c.Least
		if c.Most < 0 {
			way, by = "behind", -c.Most
		}
		j.find(Warning, "clock", fmt.Sprintf("its clock is at least %.1f s %s this machine's", by, way),
			"let a time service run there: chronyc tracking, timedatectl", n.Name)
	}
	if host := n.Report.Host; n.How != "here" && n.How != "local" && !sameHost(host, n.Name) {
		j.find(Note, "name", "calls itself "+host, "", n.Name)
	}
}

// sameHost reports whether two names are of one host, but for the domain. An
// address can be anybody's.
func sameHost(a, b string) bool {
	short := func(s string) string { s, _, _ = strings.Cut(strings.ToLower(s), "."); return s }
	return short(a) == short(b) || strings.Trim(b, "0123456789.") == "" || strings.Contains(b, ":")
}

// system judges processors, memory, limits and folders.
func (j *verdict) system(n *Node) {
	r := n.Report
	c := r.CPUs
	if c.Allowed != c.Online {
		j.find(Note, "cpuset", fmt.Sprintf("ranks may use CPUs %s of %s", c.Allowed, c.Online),
			"see who set it: cat /proc/self/cgroup", n.Name)
	}
	if c.Quota > 0 && c.Quota < float64(c.Many) {
		j.find(Warning, "quota", fmt.Sprintf("a cgroup leaves %.3g CPUs' worth of time to %d CPUs", c.Quota, c.Many),
			fmt.Sprintf("start at most so many ranks there: --hosts HOST:%d", max(1, int(c.Quota))), n.Name)
	}
	if c.Many > 0 && c.Load > float64(c.Many) {
		j.find(Warning, "load", "more runs there already than it has CPUs for",
			"see what it is: ssh HOST top -bn1; or give it fewer ranks: --map-by load", n.Name)
	}
	m := r.Memory
	if m.Limit > 0 && m.Limit < m.Total {
		j.find(Note, "memory", fmt.Sprintf("a cgroup leaves %s of memory", Size(m.Limit)), "", n.Name)
	}
	if m.Total > 0 && m.Available < m.Total/20 {
		j.find(Warning, "memory", "less than a twentieth of its memory is free",
			"see what has it: ssh HOST ps aux --sort=-rss", n.Name)
	}
	if f := r.Files; f.Soft >= 0 && f.Soft < leastFiles {
		j.find(Warning, "open files", fmt.Sprintf("a process may open %d files", f.Soft),
			"raise it before starting ibrun: ulimit -n 4096", n.Name)
	}
	for _, f := range r.Folders {
		j.folder(n, f)
	}
	if r.Binary == "" && n.How != "here" && n.How != "local" {
		j.find(Note, "cache", "ibrun is sent there again at each start: no folder could keep it",
			"see why ~/.cache cannot be written, or install ibrun there and say --agent-path", n.Name)
	}
	for _, text := range r.Notes {
		j.find(Note, "sysfs", text, "", n.Name)
	}
}

func (j *verdict) folder(n *Node, f Folder) {
	switch {
	case f.Fault != "" && f.Use == Cache:
		j.find(Note, "cache", fmt.Sprintf("%s cannot keep ibrun: %s", f.Path, f.Fault),
			"make it writable, or install ibrun there and say --agent-path", n.Name)
	case f.Fault != "":
		j.find(Warning, f.Path, fmt.Sprintf("nothing can be written to it (%s): %s", f.Use, f.Fault),
			"see what it is: findmnt -T "+f.Path, n.Name)
	case f.Use == Shared && f.Size > 0 && f.Size < leastShared:
		j.find(Warning, f.Path, fmt.Sprintf("has %s; MPI libraries put their %s there", Size(f.Size), f.Use),
			"make it larger: mount -o remount,size=1G "+f.Path+" (docker run --shm-size=1g)", n.Name)
	case f.Use != Cache && f.Size > 0 && f.Free < min(leastFree, f.Size/2):
		j.find(Warning, f.Path, fmt.Sprintf("is all but full (%s)", f.Use), "see what has it: du -xsh "+f.Path+"/*",
			n.Name)
	}
}

// network judges the data path over Ethernet.
func (j *verdict) network(n *Node) {
	d := n.Report.Data
	switch {
	case d.Fault != "":
		j.find(Error, "data path", d.Fault, "see what there is: ip addr", n.Name)
	case d.Local && n.How != "here" && n.How != "local":
		j.find(Error, "data path", "has no address but loopback's, so that ranks of other nodes cannot reach it",
			"see why: ip addr; or name an interface with --iface", n.Name)
	}
}

// verbs judges what the system offers to programs that use RDMA.
func (j *verdict) verbs(n *Node) {
	r := n.Report
	v := r.Verbs
	if len(r.HCAs) == 0 {
		if j.wantIB || v.Deaf == "" {
			text := "no RDMA device"
			if v.Deaf != "" {
				text += "; the kernel says: " + v.Deaf
			}
			j.find(j.forVerbs(Note), "rdma", text,
				"look for one and its driver: lspci -d ::0207; lspci -d ::0200; rdma link", n.Name)
		}
		return
	}
	worth := Note
	if r.active() {
		worth = Warning
	}
	worth = j.forVerbs(worth)
	if v.Library == "" {
		j.find(worth, "libibverbs", "libibverbs.so.1 is not there, so that programs cannot use RDMA",
			"install it: apt-get install libibverbs1 ibverbs-providers, dnf install libibverbs", n.Name)
	}
	if v.ABI == "" {
		j.find(worth, "ib_uverbs", "the kernel's module for programs that use RDMA is not loaded", "modprobe ib_uverbs",
			n.Name)
	}
	verbs := 0
	for _, f := range v.Devices {
		if !strings.Contains(f.Path, "uverbs") {
			continue
		}
		verbs++
		if f.Fault != "" {
			j.find(worth, f.Path, "this user cannot open it: "+f.Fault,
				fmt.Sprintf("see who may: ls -l %s; a udev rule for all: KERNEL==\"uverbs*\", MODE=\"0666\"", f.Path),
				n.Name)
		}
	}
	if verbs == 0 && v.ABI != "" {
		j.find(worth, "/dev/infiniband", "there is no uverbs device in it",
			"ls -l /dev/infiniband; into a container they come with --device /dev/infiniband", n.Name)
	}
	if l := r.Memlock; l.Soft >= 0 && l.Soft < leastLocked {
		j.find(worth, "memlock",
			fmt.Sprintf("a process may lock %s of memory (hard limit %s), and verbs lock what they send from",
				Size(uint64(l.Soft)), l.hard()),
			"in /etc/security/limits.conf: * - memlock unlimited; for sshd: LimitMEMLOCK=infinity; then see: ssh "+
				"HOST ulimit -l", n.Name)
	}
	for _, h := range r.HCAs {
		if v.Deaf == "" && !slices.ContainsFunc(v.Listed, func(l Listed) bool { return l.Name == h.Name }) {
			j.find(worth, h.Name,
				"it is in sysfs, but the kernel does not list it here: it belongs to another network namespace",
				"rdma system; rdma dev", n.Name)
		}
	}
	if v.Deaf != "" {
		j.find(worth, "netlink", "sysfs has devices, but the kernel does not list them: "+v.Deaf, "rdma dev", n.Name)
	}
}

func (l Limit) hard() string {
	if l.Hard < 0 {
		return "none"
	}
	return Size(uint64(l.Hard))
}
