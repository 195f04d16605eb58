package bind

import (
	"fmt"
	"strconv"
	"strings"
)

// maxIndex is an exclusive upper limit of the numbers of packages and cores in a slot list.
const maxIndex = 1 << 16

// Slot represents consecutive cores of a package or of the whole node.
type Slot struct {
	Package int // number of the package, or -1 for the whole node
	First   int // number of the first core within the package or node, from 0
	Count   int // number of cores; 0 means all cores of the package or node
}

// ParseSlots parses a slot list, such as "0:1-3,5;1:*" or "2-4". The number before a colon is a package, and the cores
// after it are counted within the package, from 0. Without a colon, cores are counted within the node. "*" means all
// cores.
func ParseSlots(text string) (all []Slot, err error) {
	for _, part := range strings.Split(text, ";") {
		s := Slot{Package: -1}
		cores := part
		if socket, rest, ok := strings.Cut(part, ":"); ok {
			if s.Package, err = coreIndex(socket); err != nil {
				return nil, err
			}
			cores = rest
		}
		for _, span := range strings.Split(cores, ",") {
			if span == "*" {
				all = append(all, Slot{Package: s.Package})
				continue
			}
			lo, hi, ok := strings.Cut(span, "-")
			if !ok {
				hi = lo
			}
			if s.First, err = coreIndex(lo); err != nil {
				return nil, err
			}
			last, err := coreIndex(hi)
			if err != nil || last < s.First {
				return nil, fmt.Errorf("invalid slot %q: %q is not a range of cores", text, span)
			}
			s.Count = last - s.First + 1
			all = append(all, s)
		}
	}
	return all, nil
}

// coreIndex parses the number of a package or core in a slot list.
func coreIndex(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= maxIndex || text[0] == '+' {
		return 0, fmt.Errorf("invalid core %q in slot: write 0:1-3 (package:cores) or 2-4", text)
	}
	return n, nil
}
