//go:build leaf

package draw

import (
	"errors"

	"ibrun/topo"
)

// JSON is the whole program's: a leaf that is asked for it becomes that.
func JSON(*topo.Machine) ([]byte, error) { return nil, errors.ErrUnsupported }
