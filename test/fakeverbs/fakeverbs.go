// Package fakeverbs is a libibverbs of our own for tests, in C under lib/:
// devices with LIDs or GIDs as a test describes them, a network between the
// processes of one machine, and faults on order. A program loads it in
// the place of libibverbs.so.1, by the variables of Node.Env. It is no
// InfiniBand: it keeps what verbs promise, and says nothing of speed.
package fakeverbs

import (
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ibrun/cgo/verbs"
	"ibrun/test/compiled"
)

//go:embed lib
var sources embed.FS

// Network is a folder in which processes find each other, with the library.
type Network struct {
	dir     string
	library string
}

// New compiles the library into a folder, unless the user's cache has it, and makes an empty network there. It
// needs gcc and infiniband/verbs.h.
func New(dir string) (*Network, error) {
	n := &Network{dir: filepath.Join(dir, "net"), library: filepath.Join(dir, "libfakeverbs.so")}
	if err := os.Mkdir(n.dir, 0o777); err != nil {
		return nil, err
	}
	if err := os.CopyFS(filepath.Join(dir, "src"), sources); err != nil {
		return nil, err
	}
	lib := filepath.Join(dir, "src", "lib")
	files, err := filepath.Glob(filepath.Join(lib, "*.c"))
	if err != nil {
		return nil, err
	}
	args := []string{"gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fPIC", "-shared", "-pthread", "-Wl,-z,defs",
		"-Wl,-soname,libibverbs.so.1", "-Xlinker", "--version-script", "-Xlinker", filepath.Join(lib, "symbols.map")}
	return n, compiled.Program(n.library, append(args, files...)...)
}

// Run is what a TestMain does: the tests run with the library as a node of a network of its own,
// which is told before. They fail if something was left open on a device that was closed.
func Run(m interface{ Run() int }, node Node, told func(*Network)) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	n, err := New(dir)
	if err != nil {
		return fail(err)
	}
	told(n)
	node.Log = filepath.Join(dir, "log")
	for _, v := range n.Env(node) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return fail(err)
		}
	}
	if code = m.Run(); code != 0 {
		return code
	}
	if err := closedInOrder(node.Log); err != nil {
		return fail(err)
	}
	return 0
}

// closedInOrder reads what the library counted whenever a device was closed. The last may wait for
// the end of a stream.
func closedInOrder(log string) error {
	look, late := time.NewTicker(10*time.Millisecond), time.After(30*time.Second)
	defer look.Stop()
	for {
		left, closed, err := Left(log)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil // no device was opened
		case err != nil:
			return err
		case len(left) > 0:
			return fmt.Errorf("left when a device was closed: %q", left)
		case closed > 0:
			return nil
		}
		select {
		case <-look.C:
		case <-late:
			return errors.New("no device was closed")
		}
	}
}

// Another makes an empty network in a folder, with the same library.
func (n *Network) Another(dir string) (*Network, error) {
	return &Network{dir: dir, library: n.library}, os.MkdirAll(dir, 0o777)
}

// Join is the network of this process's own environment.
func Join() *Network {
	n := &Network{library: os.Getenv(verbs.LibraryVariable)}
	for _, word := range strings.Fields(os.Getenv("FAKEVERBS")) {
		if dir, ok := strings.CutPrefix(word, "net="); ok {
			n.dir = dir
		}
	}
	return n
}

// Port is one port of a device.
type Port struct {
	LID, SMLID uint16
	LMC        uint8
	Link       verbs.LinkLayer // InfiniBand unless it is verbs.LinkEthernet
	State      verbs.PortState // active unless given
	MTU        verbs.MTU       // 4096 unless given
	GIDs       []verbs.GID     // of type verbs.GIDUnknown: an empty entry
	PKeys      []uint16        // 0xffff alone unless given
}

// Device is one device of a node.
type Device struct {
	Name  string
	GUID  uint64 // tells devices of one name on several nodes apart
	Ports []Port
}

// Faults are percentages; what they hit follows from the seed.
type Faults struct {
	Seed               uint64
	Lose, Double, Swap int // UD messages: gone, sent twice, overtaken by the next
	RCLose             int // packets of the reliable service, which sends them again
}

// Node is what the processes of one node have.
type Node struct {
	Devices []Device
	Faults  Faults
	MaxQP   int    // queue pairs per open device; 0: many
	MemLock int    // bytes that may be registered per open device; 0: all
	Open    int    // errno of opening a device; 0: it works
	QPN     int    // first queue pair number; 0: by the process
	Log     string // a file that gets a line for each address handle, path, partition and closed device
}

// Env is the variables that make a program use the library as this node.
func (n *Network) Env(node Node) []string {
	words := []string{"net=" + n.dir}
	add := func(key string, value uint64) {
		if value != 0 {
			words = append(words, fmt.Sprintf("%s=%d", key, value))
		}
	}
	add("seed", node.Faults.Seed)
	add("lose", uint64(node.Faults.Lose))
	add("double", uint64(node.Faults.Double))
	add("swap", uint64(node.Faults.Swap))
	add("rclose", uint64(node.Faults.RCLose))
	add("maxqp", uint64(node.MaxQP))
	add("memlock", uint64(node.MemLock))
	add("open", uint64(node.Open))
	add("qpn", uint64(node.QPN))
	if node.Log != "" {
		words = append(words, "log="+node.Log)
	}
	for _, d := range node.Devices {
		words = append(words, "dev="+d.Name)
		if d.GUID != 0 {
			words = append(words, fmt.Sprintf("guid=%x", d.GUID))
		}
		for i, p := range d.Ports {
			add("port", uint64(i+1))
			add("lid", uint64(p.LID))
			add("sm", uint64(p.SMLID))
			add("lmc", uint64(p.LMC))
			add("link", uint64(p.Link))
			add("state", uint64(p.State))
			add("mtu", uint64(p.MTU))
			for _, g := range p.GIDs {
				if g.Type == verbs.GIDUnknown {
					words = append(words, "gid=-")
				} else {
					words = append(words, fmt.Sprintf("gid=%d:%x", g.Type, g.Addr))
				}
			}
			if len(p.PKeys) == 0 {
				words = append(words, "pkey=0xffff")
			}
			for _, k := range p.PKeys {
				words = append(words, fmt.Sprintf("pkey=%#x", k))
			}
		}
	}
	return []string{verbs.LibraryVariable + "=" + n.library, "FAKEVERBS=" + strings.Join(words, " ")}
}

var orders atomic.Int64 // of this process, so that answers do not meet

// Counts is what an open device has and has done, by name: pd, mr, channel,
// cq, srq, qp, ah (objects), pinned (bytes), sent, lost, double, swapped, received,
// dropped (UD messages), rclost, resent.
type Counts map[string]int

// Order tells all open devices of that name, in all processes of the network:
//
//	count DEVICE               nothing but to answer
//	port DEVICE N down|active  the port's state, with its event
//	lid DEVICE N LID           the port has another LID, with its event
//	gid DEVICE N INDEX GID     that entry is -, or TYPE:32 hexadecimal digits, with its event
//	pkey DEVICE N INDEX KEY    the same of partition keys
//	hollow DEVICE BYTES        datagrams go nowhere, and a receive has one of so many bytes
//	                           as soon as it is posted; 0: they travel again
//	qp DEVICE NUMBER           that queue pair fails, with its event
//	fatal DEVICE               the device fails, with its event
//
// and returns what each answers once it is done.
func (n *Network) Order(words string) ([]Counts, error) {
	sockets, err := filepath.Glob(filepath.Join(n.dir, "s*"))
	if err != nil {
		return nil, err
	}
	folder, err := os.Open(n.dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	at := func(name string) *net.UnixAddr { // by the descriptor: a socket's path has little room
		return &net.UnixAddr{Net: "unixgram", Name: fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), name)}
	}
	own := fmt.Sprintf("answer%d.%d", os.Getpid(), orders.Add(1))
	conn, err := net.ListenUnixgram("unixgram", at(own))
	if err != nil {
		return nil, err
	}
	defer os.Remove(filepath.Join(n.dir, own))
	defer conn.Close()
	var all []Counts
	for _, s := range sockets {
		if _, err := conn.WriteToUnix([]byte("!"+own+" "+words), at(filepath.Base(s))); err != nil {
			continue // of a process that was killed
		}
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return nil, err
		}
		b := make([]byte, 1024)
		size, err := conn.Read(b)
		if err != nil {
			return nil, fmt.Errorf("%s does not answer: %w", filepath.Base(s), err)
		}
		if text := string(b[:size]); text != "another" {
			all = append(all, ParseCounts(text))
		}
	}
	return all, nil
}

// Left returns the lines of a log that say of a device that something was still
// open on it when it was closed, and how many devices were closed.
func Left(log string) (left []string, closed int, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, 0, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "close ") {
			continue
		}
		closed++
		c := ParseCounts(line)
		if c["pd"]+c["mr"]+c["channel"]+c["cq"]+c["srq"]+c["qp"]+c["ah"]+c["pinned"] > 0 {
			left = append(left, line)
		}
	}
	return left, closed, nil
}

// ParseCounts reads the numbers of a line of the log or of an answer.
func ParseCounts(line string) Counts {
	c := Counts{}
	for _, word := range strings.Fields(line) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if number, err := strconv.Atoi(value); err == nil {
				c[key] = number
			}
		}
	}
	return c
}
