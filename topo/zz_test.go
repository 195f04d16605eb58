package topo_test
import ("testing";"time";"fmt";"ibrun/topo";"ibrun/topo/hwloctest")
func TestZZ(t *testing.T) {
	fs := world("proc/self/status = Cpus_allowed_list: 0-65535").files()
	a := time.Now()
	m := topo.Read(fs)
	fmt.Println("read", time.Since(a))
	a = time.Now()
	hwloctest.Valid(t, m)
	fmt.Println("valid", time.Since(a))
}
