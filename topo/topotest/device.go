package topotest

import (
	"fmt"
	"path"
	"strings"
)

// states are the words of ports, at the numbers that sysfs writes before them
// (kernel's drivers/infiniband/core/sysfs.c).
var states = []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE"}

// speeds are the words of rates, in Gb/s over four lanes.
var speeds = map[float64]string{20: " DDR", 40: " QDR", 56: " FDR", 100: " EDR", 200: " HDR", 400: " NDR"}

// ARPHRD numbers of the kernel's if_arp.h.
const (
	typeEthernet   = 1
	typeInfiniBand = 32
	typeLoopback   = 772
)

// Flags of the kernel's if.h.
const (
	flagUp        = 0x1
	flagBroadcast = 0x2
	flagLoopback  = 0x8
	flagMulticast = 0x1000
)

func (t *tree) devices(m Machine, l Layout) {
	for _, class := range []string{"sys/class/net", "sys/bus/pci/devices"} {
		t.folder(class)
	}
	cards := map[string]string{} // HCA's name to the folder of its PCI device
	for i, h := range m.HCAs {
		pci := h.PCI
		if pci == nil {
			pci = slot(h.NUMA, i)
		}
		class, device, driver := 0x020700, 0x101b, "mlx5_core"
		if h.ethernet() {
			class = 0x020000
		}
		dir := t.card(pci, chip{class, 0x15b3, device, driver}, h.NUMA, l)
		cards[h.Name] = dir
		t.hca(dir, i, h)
	}
	for i, link := range m.Links {
		switch {
		case link.Virtual:
			t.network("sys/devices/virtual", i, link, typeEthernet)
		case link.HCA != "":
			kind := typeInfiniBand
			for _, h := range m.HCAs {
				if h.Name == link.HCA && h.ethernet() {
					kind = typeEthernet
				}
			}
			t.network(cards[link.HCA], i, link, kind)
		default:
			pci := link.PCI
			if pci == nil {
				pci = slot(link.NUMA, len(m.HCAs)+i)
			}
			t.network(t.card(pci, chip{0x020000, 0x8086, 0x1521, "igb"}, link.NUMA, l), i, link, typeEthernet)
		}
	}
	t.network("sys/devices/virtual", -1, Link{Name: "lo", MTU: 65536, Virtual: true}, typeLoopback)
}

// ethernet reports whether the HCA's first port is one of Ethernet.
func (h HCA) ethernet() bool { return len(h.Ports) > 0 && h.Ports[0].Layer == "Ethernet" }

// guid makes a number for the index-th HCA, of port 0 for the node itself.
func guid(index, port int) string {
	return fmt.Sprintf("0002:c903:%04x:%04x", index+1, port)
}

func (t *tree) hca(card string, index int, h HCA) {
	dir := card + "/infiniband/" + h.Name
	t.link("sys/class/infiniband/"+h.Name, dir)
	t.link(dir+"/device", card)
	t.link(dir+"/subsystem", "sys/class/infiniband")
	t.text(dir+"/node_type", "1: CA")
	t.text(dir+"/node_guid", "%s", guid(index, 0))
	t.text(dir+"/sys_image_guid", "%s", guid(index, 0))
	t.text(dir+"/node_desc", "described %s", h.Name)
	t.text(dir+"/fw_ver", "20.30.1004")
	t.text(dir+"/hca_type", "MT4123")
	t.text(dir+"/board_id", "MT_0000000001")
	t.folder(dir + "/ports")
	for i, p := range h.Ports {
		t.port(fmt.Sprintf("%s/ports/%d/", dir, i+1), index, i, p)
	}
	verbs := fmt.Sprintf("%s/infiniband_verbs/uverbs%d", card, index)
	t.link("sys/class/infiniband_verbs/"+path.Base(verbs), verbs)
	t.link(verbs+"/device", card)
	t.text(verbs+"/ibdev", "%s", h.Name)
	t.text(verbs+"/abi_version", "1")
	t.text(verbs+"/dev", "231:%d", 192+index)
}

func (t *tree) port(dir string, hca, index int, p Port) {
	if p.State == "" {
		p.State = "ACTIVE"
	}
	if p.Layer == "" {
		p.Layer = "InfiniBand"
	}
	if p.Rate == 0 {
		p.Rate = 100
	}
	for number, word := range states {
		if word == p.State {
			t.text(dir+"state", "%d: %s", number, word)
		}
	}
	physical := "5: LinkUp"
	switch {
	case p.State == "DOWN" && p.Layer == "Ethernet":
		physical = "3: Disabled"
	case p.State == "DOWN":
		physical = "2: Polling"
	}
	t.text(dir+"phys_state", "%s", physical)
	t.text(dir+"link_layer", "%s", p.Layer)
	t.text(dir+"lid", "%#x", p.LID)
	t.text(dir+"lid_mask_count", "%d", p.LMC)
	t.text(dir+"sm_lid", "%#x", p.SMLID)
	t.text(dir+"sm_sl", "0")
	t.text(dir+"cap_mask", "0x2651e848")
	t.text(dir+"rate", "%g Gb/sec (4X%s)", p.Rate, speeds[p.Rate])
	for i, g := range p.gids(hca, index) {
		t.text(fmt.Sprintf("%sgids/%d", dir, i), "%s", g.GID)
		link := p.Link
		if g.Type == "" {
			link = ""
		}
		t.text(fmt.Sprintf("%sgid_attrs/types/%d", dir, i), "%s", g.Type)
		t.text(fmt.Sprintf("%sgid_attrs/ndevs/%d", dir, i), "%s", link)
	}
	keys := p.PKeys
	if keys == nil {
		keys = []uint16{0xffff, 0}
	}
	for i, key := range keys {
		t.text(fmt.Sprintf("%spkeys/%d", dir, i), "0x%04x", key)
	}
}

// gids are the table: what the driver of such a port puts in by itself, and an
// entry that is free.
func (p Port) gids(hca, index int) []GID {
	gids := p.GIDs
	local := "fe80:0000:0000:0000:" + guid(hca, index+1)
	switch {
	case gids != nil:
	case p.Layer == "Ethernet":
		gids = []GID{{local, "IB/RoCE v1"}, {local, "RoCE v2"},
			{fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a00:%02x%02x", hca+1, index+1), "RoCE v2"}}
	default:
		gids = []GID{{local, "IB/RoCE v1"}}
	}
	return append(gids[:len(gids):len(gids)], GID{GID: "0000:0000:0000:0000:0000:0000:0000:0000"})
}

// network writes an interface below the folder of the device that has it.
func (t *tree) network(device string, index int, l Link, kind int) {
	dir := device + "/net/" + l.Name
	t.link("sys/class/net/"+l.Name, dir)
	t.link(dir+"/subsystem", "sys/class/net")
	if !l.Virtual {
		t.link(dir+"/device", device)
	}
	address := fmt.Sprintf("02:00:00:00:00:%02x", index+1)
	flags, state := flagBroadcast|flagMulticast, "up"
	switch kind {
	case typeInfiniBand:
		address = "80:00:00:48:fe:80" + strings.Repeat(":00", 6) + ":00:02:c9:03:00:00:00:" + fmt.Sprintf("%02x", index+
			1)
	case typeLoopback:
		address, flags, state = "00:00:00:00:00:00", flagLoopback, "unknown"
	}
	carrier, speed := "1", ""
	if l.Speed > 0 {
		speed = fmt.Sprint(l.Speed)
	}
	if l.Down {
		state, carrier, speed = "down", "", "" // reading these two fails while the interface is off
	} else {
		flags |= flagUp
	}
	mtu := l.MTU
	if mtu == 0 {
		mtu = 1500
	}
	t.text(dir+"/address", "%s", address)
	t.text(dir+"/addr_len", "%d", (len(address)+1)/3)
	t.text(dir+"/type", "%d", kind)
	t.text(dir+"/mtu", "%d", mtu)
	t.text(dir+"/flags", "%#x", flags)
	t.text(dir+"/operstate", "%s", state)
	t.text(dir+"/carrier", "%s", carrier)
	t.text(dir+"/speed", "%s", speed)
	t.text(dir+"/ifindex", "%d", index+2)
	t.text(dir+"/iflink", "%d", index+2)
	t.text(dir+"/dev_id", "0x0")
	t.text(dir+"/dev_port", "0")
	t.text(dir+"/uevent", "INTERFACE=%s\nIFINDEX=%d", l.Name, index+2)
}
