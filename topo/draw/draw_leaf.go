//go:build leaf

package draw

import (
	"errors"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// JSON, Picture and Binding are the whole program's: a leaf that is asked for one becomes that.
func JSON(*topo.Machine) ([]byte, error) { return nil, errors.ErrUnsupported }

func Picture(*topo.Machine) string { return "" }

func Binding(*topo.Machine, cpuset.Set) string { return "" }
