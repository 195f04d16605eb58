package proc

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func init() { runtime.LockOSThread() } // TestMain runs on the main thread

// The main thread takes no orders: its affinity would be shown as that of the process.
func TestMain(m *testing.M) {
	if os.Args[0] == forgetful {
		forget()
		return
	}
	late := time.AfterFunc(10*time.Second, func() { panic("the main thread takes orders") })
	takeOrders()
	late.Stop()
	os.Exit(m.Run())
}
