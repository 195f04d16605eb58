package ibrun

import (
	"errors"

	"ibrun/bootstrap/wire"
	"ibrun/fabric"
)

func openFabric(w wire.Welcome, to fabric.Sink) (fabric.Fabric, error) { return nil, errors.New("none") }
