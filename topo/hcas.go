package topo

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// hcas are the devices in sys/class/infiniband, by name. What drivers write
// there: Documentation/ABI/stable/sysfs-class-infiniband and
// drivers/infiniband/core/sysfs.c of the kernel.
func (r *reader) hcas() []HCA {
	const class = "sys/class/infiniband"
	var hcas []HCA
	for _, name := range r.devices(class) {
		dir := class + "/" + name
		numbers := r.entries(dir + "/ports")
		if len(numbers) == 0 { // every device has one; this is a link to nowhere or something odd
			r.note("%s has no ports: left out", dir)
			continue
		}
		h := HCA{Name: name, Place: r.place(dir), IWARP: r.word(dir+"/node_type") == "RNIC"}
		copy(h.GUID[:], r.identifier(dir+"/node_guid", "GUID", len(h.GUID)))
		for _, n := range numbers {
			h.Ports = append(h.Ports, r.port(dir+"/ports/"+strconv.Itoa(n), n))
		}
		hcas = append(hcas, h)
	}
	return hcas
}

func (r *reader) port(dir string, number int) Port {
	return Port{
		Number:   number,
		State:    r.word(dir + "/state"),
		Physical: r.word(dir + "/phys_state"),
		Layer:    r.word(dir + "/link_layer"),
		LID:      uint32(r.unsigned(dir+"/lid", 32)), // Omni-Path has more than 16 bits
		SMLID:    uint32(r.unsigned(dir+"/sm_lid", 32)),
		LMC:      uint8(r.unsigned(dir+"/lid_mask_count", 8)),
		Rate:     r.rate(dir + "/rate"),
		GIDs:     r.gids(dir),
		PKeys:    r.pkeys(dir + "/pkeys"),
	}
}

// identifier reads a file with n bytes in hexadecimal, like "0002:c903:00f9:bfa0". It returns nil if the file is
// missing or empty, and nil with a note if its content is invalid. What names the content in the note.
func (r *reader) identifier(path, what string, n int) []byte {
	text, _ := r.text(path)
	if text == "" {
		return nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	if err != nil || len(b) != n {
		r.note("%s holds %.50q, which is no %s", path, text, what)
		return nil
	}
	return b
}

// mostUnused is how many unused entries of a table may follow each other before
// the rest is not read. Tables are filled from the front and may have holes;
// they have up to 256 entries, of which some drivers ask the firmware one by one.
const mostUnused = 32

// table goes through the entries of a folder. use reports whether an entry is
// in use.
func (r *reader) table(dir string, use func(index int) bool) {
	unused := 0
	for _, i := range r.entries(dir) {
		if unused++; use(i) {
			unused = 0
		}
		if unused == mostUnused {
			return
		}
	}
}

// gids are the entries of a port's table that are in use. The attributes of
// the others cannot be read (EINVAL).
func (r *reader) gids(port string) (gids []GID) {
	r.table(port+"/gids", func(i int) bool {
		n := "/" + strconv.Itoa(i)
		gid := r.identifier(port+"/gids"+n, "GID", 16)
		// An empty entry of an InfiniBand port has the subnet's prefix and
		// nothing else.
		if gid == nil || [8]byte(gid[8:]) == ([8]byte{}) {
			return false
		}
		gids = append(gids, GID{
			Index: i,
			GID:   [16]byte(gid),
			Type:  r.word(port + "/gid_attrs/types" + n),
			Link:  r.word(port + "/gid_attrs/ndevs" + n),
		})
		return true
	})
	return gids
}

// pkeys are a port's partition keys. The low 15 bits are the partition; 0 is
// none.
func (r *reader) pkeys(dir string) (keys []uint16) {
	r.table(dir, func(i int) bool {
		key := uint16(r.unsigned(dir+"/"+strconv.Itoa(i), 16))
		if key&0x7fff == 0 {
			return false
		}
		keys = append(keys, key)
		return true
	})
	return keys
}

// rate is a file like "56 Gb/sec (4X FDR)", in Gb/s.
func (r *reader) rate(path string) float64 {
	text, _ := r.text(path)
	if text == "" {
		return 0
	}
	number, unit, _ := strings.Cut(text, " ")
	rate, err := strconv.ParseFloat(number, 64)
	// not a number compares as false
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || !(rate >= 0 && rate < 1e6) {
		r.note("%s holds %.40q, which is no rate in Gb/sec", path, text)
		return 0
	}
	return rate
}

// word is a short text, without the number that the kernel puts before some:
// "4: ACTIVE" is ACTIVE.
func (r *reader) word(path string) string {
	text, _ := r.text(path)
	if number, rest, ok := strings.Cut(text, ": "); ok && digits(number) == len(number) {
		text = rest
	}
	if len(text) > mostName || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
		r.note("%s holds %.40q, which is no word", path, text)
		return ""
	}
	return text
}

// unsigned is a decimal number, or a hexadecimal one with 0x before it, of so
// many bits; 0 where there is none.
func (r *reader) unsigned(path string, bits int) uint64 {
	text, _ := r.text(path)
	return r.parseUnsigned(text, path, bits)
}

func (r *reader) parseUnsigned(text, path string, bits int) uint64 {
	if text == "" {
		return 0
	}
	base := 10
	figures, marked := strings.CutPrefix(text, "0x")
	if marked {
		base = 16
	}
	n, err := strconv.ParseUint(figures, base, bits)
	if err != nil {
		r.note("%s holds %.40q, which is no number of %d bits", path, text, bits)
		return 0
	}
	return n
}
