// Package ib has no code but its tests, which run on real verbs devices: Soft-RoCE's, in a machine
// of rdmavm's (make test-ib).
//
// It refuses to test what needs no device.
package ib
