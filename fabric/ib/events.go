package ib

// down says that the port is down, or nil.
func (f *Fabric) down() error { return nil }
