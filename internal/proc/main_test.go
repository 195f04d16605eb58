package proc

import (
	"os"
	"runtime"
	"testing"
)

func init() { runtime.LockOSThread() } // TestMain runs on the main thread

// The main thread takes no orders: its affinity would be shown as that of the process.
func TestMain(m *testing.M) {
	takeOrders() // does not return if it takes orders on this thread
	os.Exit(m.Run())
}
