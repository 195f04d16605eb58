package vm

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

const hostName = "rdmavm"

// network creates the interfaces eth0, eth1, ... in the guest, which can reach each other, and on each of them a
// Soft-RoCE device: rxe0, rxe1, ... All are in one network namespace, because Soft-RoCE receives packets in one
// namespace only.
func network(devices int) error {
	if err := unix.Sethostname([]byte(hostName)); err != nil {
		return err
	}
	hosts, err := os.OpenFile("/etc/hosts", os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(hosts, "127.0.0.1 localhost %s\n", hostName)
		hosts.Close()
	}
	if err != nil {
		return err
	}
	// Accept packets that come from another address of the guest. Disable the detection of duplicate IPv6 addresses,
	// which would take a second.
	for name, value := range map[string]string{"ipv4/conf/all/accept_local": "1", "ipv4/conf/default/accept_local": "1",
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0", "ipv6/conf/default/accept_dad": "0"} {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	if err := os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"); err != nil {
		return err
	}
	links, neighbours, rxe := networkCommands(devices)
	for _, step := range []struct{ program, batch string }{{"ip", links}, {"ip", neighbours}, {"rdma", rxe}} {
		cmd := exec.Command(step.program, "-b", "-")
		cmd.Stdin = strings.NewReader(step.batch)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s -b: %w: %s", step.program, err, out)
		}
	}
	return nil
}

// networkCommands returns the input of "ip -b" that creates interfaces (links) and neighbour entries (neighbours), and
// the input of "rdma -b" that creates Soft-RoCE devices (rxe). The interfaces are macvlans over dummy0, which the
// module dummy creates. The neighbour entries are permanent, because the kernel does not answer ARP requests from its
// own addresses.
func networkCommands(devices int) (links, neighbours, rxe string) {
	var l, n, r strings.Builder
	l.WriteString("link set lo up\nlink set dummy0 up\n")
	for i := range devices {
		fmt.Fprintf(&l, "link add link dummy0 name eth%d address 02:00:00:00:77:%02x type macvlan mode bridge\n", i, i)
		fmt.Fprintf(&l, "addr add 10.77.0.%d/24 dev eth%d\nlink set eth%d up\n", i+1, i, i)
		fmt.Fprintf(&r, "link add rxe%d type rxe netdev eth%d\n", i, i)
		for to := range devices {
			if to != i {
				for _, address := range []string{fmt.Sprintf("10.77.0.%d", to+1), fmt.Sprintf("fe80::ff:fe00:77%02x",
					to)} {
					fmt.Fprintf(&n, "neigh add %s lladdr 02:00:00:00:77:%02x dev eth%d nud permanent\n", address, to, i)
				}
			}
		}
	}
	return l.String(), n.String(), r.String()
}
