package doctor

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/Mellanox/rdmamap"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/remote"
	"ibrun/internal/build"
	"ibrun/internal/limits"
	"ibrun/internal/netiface"
	"ibrun/topo"
)

// Here is the node that this process runs on. iface is what --iface says.
func Here(iface string) Examine {
	host, _ := os.Hostname()
	links, err := netiface.Links()
	return Examine{
		Files: os.DirFS("/"), Machine: build.Machine(), UID: os.Geteuid(), Host: host, Binary: build.Path(),
		Home: os.Getenv("HOME"), Cache: os.Getenv("XDG_CACHE_HOME"), Libs: os.Getenv("LD_LIBRARY_PATH"),
		Limits: limits.Original(), Links: links,
		Route: func() (netiface.Choice, error) {
			if err != nil {
				return netiface.Choice{}, err
			}
			path, _ := netip.ParseAddr(remote.LocalAddress()) // none is the zero value
			return netiface.Choose(iface, path, links)
		},
		Open:   func(file string) error { return unix.Access(file, unix.R_OK|unix.W_OK) },
		Space:  space,
		Write:  write,
		Listed: listedModules,
		Own: func(hca string) []string { // rdma_cm belongs to all of them
			return slices.DeleteFunc(rdmamap.GetRdmaCharDevices(hca),
				func(f string) bool { return f == rdmamap.RdmaUcmDevice })
		},
		Over: over,
		Now:  func() int64 { return time.Now().UnixNano() },
	}
}

func space(dir string) (size, free uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(standing(dir), &st); err != nil {
		return 0, 0, err
	}
	return st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), nil
}

// standing is a folder, or the one that it would be made in.
func standing(dir string) string {
	for dir != "/" {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

// write makes a file in a folder and removes it.
func write(dir string) error {
	f, err := os.CreateTemp(standing(dir), ".ibrun-doctor.*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// listedModules returns the RDMA devices that the kernel lists over netlink. The error "protocol not supported" means
// that the kernel has no RDMA.
func listedModules() (all []Listed, err error) {
	links, err := netlink.RdmaLinkList()
	for _, l := range links {
		all = append(all, Listed{Name: l.Attrs.Name, GUID: straight(l.Attrs.NodeGuid),
			Firmware: l.Attrs.FirmwareVersion, Ports: int(l.Attrs.NumPorts)})
	}
	return all, err
}

// straight turns a GUID of netlink's, which has its bytes reversed, into that
// of sysfs.
func straight(guid string) string {
	b, err := net.ParseMAC(guid)
	if err != nil {
		return guid
	}
	slices.Reverse(b)
	return strings.ReplaceAll(b.String(), ":", "")
}

// over is the HCA of an interface's PCI device, if that has one. It does not ask
// rdmamap for the device of an interface by name: that opens every entry of every
// table of GIDs, used or not, for each interface, and takes the node's GUID for
// the port's with IPoIB.
func over(l topo.Link) string {
	if len(l.PCI) == 0 {
		return ""
	}
	if all := rdmamap.GetRdmaDevicesForPcidev(l.PCI[len(l.PCI)-1]); len(all) == 1 {
		return all[0]
	}
	return ""
}
