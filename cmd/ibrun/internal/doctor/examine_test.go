package doctor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/internal/limits"
	"ibrun/internal/netiface"
	"ibrun/topo"
	"ibrun/topo/topotest"
)

// cluster is a node with an HCA of InfiniBand, whose second port is not
// plugged in, and one of RoCE, as made-up machines have them.
var cluster = topotest.Machine{
	Packages: 2, CoresPerPackage: 4, Load: 1.25,
	HCAs: []topotest.HCA{
		{Name: "mlx5_0", Ports: []topotest.Port{{LID: 0x1b, SMLID: 1, LMC: 1, Rate: 56, PKeys: []uint16{0xffff,
			0x8001}}, {State: "DOWN", Rate: 10}}},
		{Name: "mlx5_1", NUMA: 1, Ports: []topotest.Port{{Layer: "Ethernet", Rate: 100, Link: "eth2"}}},
	},
	Links: []topotest.Link{
		{Name: "eth0", Speed: 10000}, {Name: "ib0", HCA: "mlx5_0", MTU: 2044}, {Name: "eth2", HCA: "mlx5_1", MTU: 4200},
	},
}

// elf is the head of a library for a processor.
func elf(machine uint16) *fstest.MapFile {
	head := make([]byte, 64)
	copy(head, "\x7fELF")
	binary.NativeEndian.PutUint16(head[18:], machine)
	return &fstest.MapFile{Data: head}
}

// node is an examined machine whose system calls are made up.
func node(files fstest.MapFS) Examine {
	for name, text := range map[string]string{
		"proc/sys/kernel/random/boot_id": "b-1\n", "proc/sys/kernel/osrelease": "6.1.0\n",
		"sys/class/infiniband_verbs/abi_version": "6\n", "sys/module/ib_uverbs/refcnt": "0\n",
		"dev/infiniband/uverbs0": "", "dev/infiniband/uverbs1": "", "dev/infiniband/rdma_cm": "",
		"dev/infiniband/by-ibdev/x": "",
		"etc/ld.so.cache": "glibc-ld.so.cache1.1\x00\x01\x02\x00libibverbs.so.1\x00" +
			"/opt/lib/libibverbs.so.1\x00libc.so.6\x00/lib/libc.so.6\x00",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o444}
	}
	files["opt/lib/libibverbs.so.1"] = elf(62)
	n := Examine{
		Files: files, Machine: "x86_64", UID: 1000, Host: "n1", Binary: "/home/u/.cache/ibrun/ibrun-1", Home: "/home/u",
		Links: []netiface.Link{
			{Name: "lo", Up: true, Loopback: true, MTU: 65536,
				Addrs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}},
			{Name: "eth0", Up: true, MTU: 1500, Addrs: []netip.Prefix{netip.MustParsePrefix("10.1.0.7/16")}},
			{Name: "docker0", Up: true, Virtual: true, MTU: 1500,
				Addrs: []netip.Prefix{netip.MustParsePrefix("172.17.0.1/16")}},
		},
		Open: func(file string) error {
			if file == "/dev/infiniband/uverbs1" {
				return unix.EACCES
			}
			return nil
		},
		Space: func(string) (uint64, uint64, error) { return 4 << 30, 1 << 30, nil },
		Write: func(dir string) error {
			if dir == "/home/u/.cache/ibrun" {
				return &fs.PathError{Op: "open", Path: dir, Err: unix.EROFS}
			}
			return nil
		},
		Listed: func() ([]Listed, error) {
			return []Listed{{Name: "mlx5_1"}, {Name: "mlx5_0", GUID: "0002c90300010000", Firmware: "20.30",
				Ports: 2}}, nil
		},
		Own: func(hca string) []string { return []string{"/dev/infiniband/u" + hca, "/dev/infiniband/a" + hca} },
		// eth2 is in the table of GIDs
		Over: func(l topo.Link) string { return map[string]string{"ib0": "mlx5_0"}[l.Name] },
		Now:  func() int64 { return 1700000000000000000 },
	}
	n.Route = func() (netiface.Choice, error) { return netiface.Choose("", netip.Addr{}, n.Links) }
	n.Limits[unix.RLIMIT_MEMLOCK] = limits.Limit{Soft: 64 << 10, Hard: limits.Infinity}
	n.Limits[unix.RLIMIT_NOFILE] = limits.Limit{Soft: 1024, Hard: 4096}
	return n
}

func TestReport(t *testing.T) {
	r := node(cluster.Files()).Report()
	require.Equal(t, &Report{
		Host: "n1", Boot: "b-1", UID: 1000, Kernel: "6.1.0", Machine: "x86_64", Time: 1700000000000000000,
		Binary:  "/home/u/.cache/ibrun/ibrun-1",
		CPUs:    CPUs{Online: "0-7", Allowed: "0-7", Many: 8, Load: 1.25},
		Memory:  Memory{Total: 8 << 30, Available: 4 << 30},
		Memlock: Limit{Soft: 64 << 10, Hard: Unlimited}, Files: Limit{Soft: 1024, Hard: 4096},
		Folders: []Folder{
			{Path: "/dev/shm", Use: Shared, Size: 4 << 30, Free: 1 << 30}, {Path: "/tmp", Use: Scratch,
				Size: 4 << 30, Free: 1 << 30},
			{Path: "/home/u/.cache/ibrun", Use: Cache, Fault: "read-only file system"},
		},
		Data: Route{Addr: "10.1.0.7", Interface: "eth0", Network: "10.1.0.0/16", MTU: 1500, Speed: 10000},
		Addrs: []Address{{Interface: "eth0", Addr: "10.1.0.7"}, {Interface: "docker0", Addr: "172.17.0.1",
			Virtual: true}},
		Verbs: Verbs{
			ABI: "6", Library: "/opt/lib/libibverbs.so.1", Modules: []string{"ib_uverbs"},
			Devices: []DeviceFile{{Path: "/dev/infiniband/rdma_cm"}, {Path: "/dev/infiniband/uverbs0"},
				{Path: "/dev/infiniband/uverbs1", Fault: "permission denied"}},
			Listed: []Listed{{Name: "mlx5_0", GUID: "0002c90300010000", Firmware: "20.30", Ports: 2},
				{Name: "mlx5_1"}},
		},
		HCAs: []HCA{{
			Name: "mlx5_0", GUID: "0002c90300010000", Files: []string{"/dev/infiniband/amlx5_0",
				"/dev/infiniband/umlx5_0"}, Links: []string{"ib0"},
			Ports: []Port{
				{Number: 1, State: "ACTIVE", Physical: "LinkUp", Layer: "InfiniBand", LID: 0x1b, LMC: 1, SMLID: 1,
					Rate:  56,
					GIDs:  []GID{{GID: "fe800000000000000002c90300010001", Type: "IB/RoCE v1"}},
					PKeys: []uint16{0xffff, 0x8001}},
				{Number: 2, State: "DOWN", Physical: "Polling", Layer: "InfiniBand", Rate: 10,
					GIDs:  []GID{{GID: "fe800000000000000002c90300010002", Type: "IB/RoCE v1"}},
					PKeys: []uint16{0xffff}},
			},
		}, {
			Name: "mlx5_1", GUID: "0002c90300020000", Files: []string{"/dev/infiniband/amlx5_1",
				"/dev/infiniband/umlx5_1"}, Links: []string{"eth2"},
			Ports: []Port{{Number: 1, State: "ACTIVE", Physical: "LinkUp", Layer: "Ethernet", Rate: 100,
				MTU: 4200, PKeys: []uint16{0xffff},
				GIDs: []GID{
					{Index: 0, GID: "fe800000000000000002c90300020001", Type: "IB/RoCE v1", Link: "eth2"},
					{Index: 1, GID: "fe800000000000000002c90300020001", Type: "RoCE v2", Link: "eth2"},
					{Index: 2, GID: "00000000000000000000ffff0a000201", Type: "RoCE v2", Link: "eth2"},
				}}},
		}},
		Notes: []string{},
	}, r)
}

// What is not there is said to be not there, and JSON has no null.
func TestBareNode(t *testing.T) {
	n := node(cluster.Files())
	n.Files = topotest.Machine{}.Files()
	n.Route = func() (netiface.Choice, error) { return netiface.Choice{}, errors.New("no network") }
	n.Listed = func() ([]Listed, error) { return nil, unix.EPROTONOSUPPORT }
	n.Links, n.Home = nil, ""
	r := n.Report()
	require.Equal(t, "protocol not supported", r.Verbs.Deaf)
	require.Empty(t, r.Verbs.Library+r.Verbs.ABI)
	require.Equal(t, "no network", r.Data.Fault)
	require.Len(t, r.Folders, 2, "without a home there is no cache")
	b, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(b), "null")
}

func TestLibrary(t *testing.T) {
	for name, c := range map[string]struct {
		libs  string
		files map[string]*fstest.MapFile
		want  string
	}{
		"none": {"", nil, ""},
		"usual": {"", map[string]*fstest.MapFile{"usr/lib64/libibverbs.so.1": elf(62)},
			"/usr/lib64/libibverbs.so.1"},
		"another processor": {"", map[string]*fstest.MapFile{"lib64/libibverbs.so.1": elf(183),
			"usr/lib/libibverbs.so.1": elf(62)}, "/usr/lib/libibverbs.so.1"},
		"a text": {"",
			map[string]*fstest.MapFile{"lib64/libibverbs.so.1": {Data: []byte("INPUT(-libverbs) and more")}}, ""},
		"LD_LIBRARY_PATH first": {"/a:/b", map[string]*fstest.MapFile{"b/libibverbs.so.1": elf(62),
			"usr/lib64/libibverbs.so.1": elf(62)}, "/b/libibverbs.so.1"},
		"cache before usual": {"", map[string]*fstest.MapFile{
			"etc/ld.so.cache": {Data: []byte("x\x00/opt/libibverbs.so.1\x00")}, "opt/libibverbs.so.1": elf(62),
			"usr/lib64/libibverbs.so.1": elf(62),
		}, "/opt/libibverbs.so.1"},
		"cache of what is gone": {"",
			map[string]*fstest.MapFile{"etc/ld.so.cache": {Data: []byte("x\x00/opt/libibverbs.so.1\x00")}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS(c.files)
			require.Equal(t, c.want, Examine{Files: files, Machine: "x86_64", Libs: c.libs}.find())
		})
	}
}

// netlink has the bytes of a GUID in the reverse order of sysfs.
func TestStraight(t *testing.T) {
	require.Equal(t, "b8cef60300123456", straight("56:34:12:00:03:f6:ce:b8"))
	require.Equal(t, "odd", straight("odd"))
}

// This machine can be examined, and the examination leaves nothing behind.
func TestHere(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	r := Here("").Report()
	require.NotEmpty(t, r.Boot)
	require.NotEmpty(t, r.Kernel)
	require.NotZero(t, r.Memory.Total)
	require.Positive(t, r.CPUs.Many)
	require.Positive(t, r.Time)
	for _, f := range r.Folders {
		require.Empty(t, f.Fault, f.Path)
		require.NotZero(t, f.Size, f.Path)
	}
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorIs(t, write("/proc/1"), fs.ErrNotExist)
	require.Equal(t, "/", standing("/nosuch/folder"))
	fault := Here("nosuch0").Report().Data.Fault
	require.Contains(t, fault, "--iface nosuch0")
}
