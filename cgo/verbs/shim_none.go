//go:build !cgo || noib

package verbs

import (
	"syscall"
	"unsafe"
)

// notBuilt returns the reason that Open fails. No object exists then, so nothing below is called.
func notBuilt() string { return "no cgo, or tag noib" }

const none = -int(syscall.ENOSYS)

func shimLoad(string) (string, int)                                { return "", none }
func shimDevices(int) ([]Device, int)                              { return nil, none }
func shimOpen(string) (unsafe.Pointer, int, int)                   { return nil, -1, none }
func shimClose(unsafe.Pointer) int                                 { return none }
func shimQueryDevice(unsafe.Pointer) (Limits, int)                 { return Limits{}, none }
func shimQueryPort(unsafe.Pointer, int) (Port, int)                { return Port{}, none }
func shimQueryGID(unsafe.Pointer, int, int) (GID, int)             { return GID{}, none }
func shimQueryPKey(unsafe.Pointer, int, int) (uint16, int)         { return 0, none }
func shimAsyncEvent(unsafe.Pointer) (Event, int)                   { return Event{}, none }
func shimAllocPD(unsafe.Pointer) (unsafe.Pointer, int)             { return nil, none }
func shimDeallocPD(unsafe.Pointer) int                             { return none }
func shimDeregMR(unsafe.Pointer) int                               { return none }
func shimCreateChannel(unsafe.Pointer) (unsafe.Pointer, int, int)  { return nil, -1, none }
func shimDestroyChannel(unsafe.Pointer) int                        { return none }
func shimTakeEvents(unsafe.Pointer, []uint64) int                  { return none }
func shimNext(unsafe.Pointer, []Completion) (uint64, int, int)     { return 0, 0, none }
func shimDestroyCQ(unsafe.Pointer) int                             { return none }
func shimArmCQ(unsafe.Pointer) int                                 { return none }
func shimPollCQ(unsafe.Pointer, []Completion) int                  { return none }
func shimArmPollCQ(unsafe.Pointer, []Completion) int               { return none }
func shimCreateSRQ(unsafe.Pointer, int) (unsafe.Pointer, int, int) { return nil, 0, none }
func shimDestroySRQ(unsafe.Pointer) int                            { return none }
func shimCreateAH(unsafe.Pointer, Route) (unsafe.Pointer, int)     { return nil, none }
func shimDestroyAH(unsafe.Pointer) int                             { return none }
func shimDestroyQP(unsafe.Pointer) int                             { return none }
func shimModifyQP(unsafe.Pointer, QPState) int                     { return none }
func shimQueryQP(unsafe.Pointer) (QPState, int)                    { return QPState{}, none }
func shimPostSend(unsafe.Pointer, []Send) (int, int)               { return 0, none }
func shimPostReceive(unsafe.Pointer, []Receive) (int, int)         { return 0, none }
func shimPostSRQ(unsafe.Pointer, []Receive) (int, int)             { return 0, none }

func shimRegMR(unsafe.Pointer, []byte, Access) (ptr unsafe.Pointer, lkey, rkey uint32, rc int) {
	return nil, 0, 0, none
}

func shimCreateCQ(unsafe.Pointer, int, uint64, unsafe.Pointer) (ptr unsafe.Pointer, size, rc int) {
	return nil, 0, none
}

func shimCreateQP(unsafe.Pointer, *QPConfig) (ptr unsafe.Pointer, number uint32, rc int) {
	return nil, 0, none
}
