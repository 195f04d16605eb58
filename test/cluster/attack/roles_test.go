//go:build cluster

package attack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/test/executable"
)

// roles are what this program does on a node, as whom it was started.
var roles = map[string]func(args []string) int{
	"work": work, "sleep": func([]string) int { fmt.Println("begun"); <-time.After(time.Hour); return 0 },
	"peep": peep, "grab": grab, "flood": flood, "guess": guess, "spoof": spoof, "sniff": sniff, "swap": swap,
	"listen": listen, "hear": printDatagrams, "disrupt": disrupt, "pry": pry,
}

func ownerOf(i fs.FileInfo) string { return strconv.Itoa(int(i.Sys().(*syscall.Stat_t).Uid)) }

func pidOf(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// verdict prints what became of an attempt.
func verdict(what string, err error) {
	if err == nil {
		fmt.Printf("%s: done\n", what)
		return
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	fmt.Printf("%s: %v\n", what, err)
}

// peep reads what procfs has of a process.
func peep(args []string) int {
	dir := "/proc/" + args[0] + "/"
	for _, name := range []string{"environ", "maps", "auxv", "stack", "syscall", "io", "mem"} {
		f, err := os.Open(dir + name)
		if err == nil {
			_, err = f.Read(make([]byte, 100))
			f.Close()
		}
		if name == "mem" && errors.Is(err, syscall.EIO) {
			err = nil // it was open: nothing lies at address 0
		}
		verdict(name, err)
	}
	for _, name := range []string{"exe", "cwd", "root"} {
		_, err := os.Readlink(dir + name)
		verdict(name, err)
	}
	_, err := os.ReadDir(dir + "fd")
	verdict("fd", err)
	for fd := range 12 {
		f, err := os.OpenFile(dir+"fd/"+strconv.Itoa(fd), os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err == nil {
			f.Close()
		}
		verdict("fd/"+strconv.Itoa(fd), err)
	}
	return 0
}

// grab takes hold of a process: traces, reads, robs and kills it. That is last.
func grab(args []string) int {
	runtime.LockOSThread()
	pid := pidOf(args[0])
	err := unix.PtraceAttach(pid)
	if err == nil {
		_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
		err = unix.PtraceDetach(pid)
	}
	verdict("ptrace", err)
	local, b := make([]unix.Iovec, 1), make([]byte, 8)
	local[0].Base = &b[0]
	local[0].SetLen(len(b))
	_, err = unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x1000, Len: 8}}, 0)
	if errors.Is(err, unix.EFAULT) {
		err = nil // it was allowed: nothing lies there
	}
	verdict("process_vm_readv", err)
	p, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		_, err = unix.PidfdGetfd(p, 0, 0)
	}
	verdict("pidfd_getfd", err)
	verdict("prlimit", unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
	verdict("setpriority", unix.Setpriority(unix.PRIO_PROCESS, pid, 19))
	verdict("affinity", unix.SchedSetaffinity(pid, &unix.CPUSet{1}))
	verdict("kill", unix.Kill(pid, unix.SIGKILL))
	return 0
}

// flood opens 200 connections to the address args[0] and runs until it is killed. It sends 53 bytes, the length of an
// authentication proof, on every second connection, and one byte on each of the rest. If the peer closes a connection,
// flood opens a new one after half a second, because connecting again at once would use all CPU time of the machine.
func flood(args []string) int {
	fmt.Println("begun")
	for i := range 200 {
		go func() {
			says := []byte{1}
			if i%2 == 0 {
				says = make([]byte, 53) // as long as a proof
			}
			for {
				if c, err := net.DialTimeout("tcp", args[0], 5*time.Second); err == nil {
					_, _ = c.Write(says)
					_, _ = c.Read(make([]byte, 1))
					c.Close()
				}
				<-time.After(time.Second / 2)
			}
		}()
	}
	select {}
}

// guess says PMI numbers to a port: the one given, and others.
func guess(args []string) int {
	heard := 0
	for i := range 200 {
		id := args[1]
		if i > 0 {
			id = strconv.Itoa(int(rand.Uint32() >> 1))
		}
		c, err := net.DialTimeout("tcp", args[0], 5*time.Second)
		if err != nil {
			verdict("connect", err)
			return 0
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintf(c, "cmd=initack pmiid=%s\n", id)
		n, _ := c.Read(make([]byte, 100))
		heard += n
		c.Close()
	}
	fmt.Printf("heard %d bytes\n", heard)
	return 0
}

// datagram is an IPv4 packet with UDP in it, from wherever one likes.
func datagram(from, to net.UDPAddr, body []byte) []byte {
	b := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0} // the kernel fills in length and checksum
	b = append(append(b, from.IP.To4()...), to.IP.To4()...)
	b = binary.BigEndian.AppendUint16(b, uint16(from.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(to.Port))
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(body)))
	return append(append(b, 0, 0), body...)
}

// spoof sends datagrams in the name of another: FROM TO HEX..., each as it is, with
// each bit of it changed, and cut; then noise. It needs root, of its own machine.
func spoof(args []string) int {
	from, err := net.ResolveUDPAddr("udp4", args[0])
	to, errTo := net.ResolveUDPAddr("udp4", args[1])
	s, errSocket := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
	if err := errors.Join(err, errTo, errSocket); err != nil {
		fmt.Println(err)
		return 1
	}
	at := &unix.SockaddrInet4{Addr: [4]byte(to.IP.To4())}
	sent := 0
	send := func(b []byte) {
		for {
			err := unix.Sendto(s, datagram(*from, *to, b), 0, at)
			if !errors.Is(err, unix.ENOBUFS) {
				break
			}
		}
		sent++
	}
	for _, text := range args[2:] {
		b, err := hex.DecodeString(text)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		for range 50 {
			send(b)
		}
		for bit := range 8 * len(b) {
			c := bytes.Clone(b)
			c[bit/8] ^= 1 << (bit % 8)
			send(c)
		}
		for n := range len(b) {
			send(b[:n])
		}
	}
	for range 2000 {
		b := make([]byte, rand.IntN(200))
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		send(b)
	}
	fmt.Printf("sent %d\n", sent)
	return 0
}

// sniff prints datagrams that come to a port of this node: PORT COUNT.
func sniff(args []string) int {
	const all = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in the network's order
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, all&0xffff)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	port, count := pidOf(args[0]), pidOf(args[1])
	for b := make([]byte, 2048); count > 0; {
		n, err := unix.Read(s, b)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		head := int(b[0]&15) * 4
		if n < head+8 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_UDP || int(binary.BigEndian.Uint16(b[head+2:])) != port {
			continue
		}
		fmt.Printf("%v:%d %x\n", net.IP(b[12:16]), binary.BigEndian.Uint16(b[head:]), b[head+8:n])
		count--
	}
	return 0
}

// swap tries, until it is ended, to get a program of its own into folders that
// appear under some others with a name that begins so: PREFIX FOLDER...
func swap(args []string) int {
	fmt.Println("begun")
	var tried, done atomic.Int64
	for ; ; <-time.After(time.Millisecond) { // Each of these folders exists for longer than a millisecond.
		for _, folder := range args[1:] {
			entries, _ := os.ReadDir(folder)
			for _, e := range entries {
				if !strings.HasPrefix(e.Name(), args[0]) {
					continue
				}
				if tried.Add(1) == 1 {
					fmt.Println("seen")
				}
				at := folder + "/" + e.Name()
				for _, err := range []error{
					executable.Write(at+"/ibrun", []byte("#!/bin/sh\n")), os.Rename(at, at+".gone"), os.Remove(at),
					os.Symlink("/", at+"/x"), os.Chmod(at, 0o777),
				} {
					if err == nil && done.Add(1) == 1 {
						fmt.Println("swapped")
					}
				}
			}
		}
	}
}

// pry prints what it can write of a user's files below some folders: USER FOLDER...
func pry(args []string) int {
	for _, folder := range args[1:] {
		_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // it can be seen and not be listed
			}
			i, err := d.Info()
			if err != nil || ownerOf(i) != args[0] || i.Mode()&fs.ModeSymlink != 0 {
				return nil
			}
			if unix.Access(path, unix.W_OK) == nil {
				fmt.Printf("%s: done\n", path)
			}
			return nil
		})
	}
	return 0
}

// listen has a socket with a name.
func listen(args []string) int {
	l, err := net.Listen("unix", args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("begun")
	for {
		if c, err := l.Accept(); err == nil {
			c.Close()
		}
	}
}

// printDatagrams prints datagrams, and from whom it believes that they are.
func printDatagrams(args []string) int {
	c, err := net.ListenPacket("udp4", ":"+args[0])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("begun")
	for b := make([]byte, 2048); ; {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return 1
		}
		fmt.Printf("%q from %v\n", b[:n], from)
	}
}

// disrupt does to all processes and files of a user, as they come and go, whatever
// it can: USER FOLDER. It prints what was done.
func disrupt(args []string) int {
	fmt.Println("begun")
	for ; ; <-time.After(10 * time.Millisecond) { // the nodes have two CPUs for all
		dirs, _ := os.ReadDir("/proc")
		for _, d := range dirs {
			i, err := d.Info()
			if err != nil || ownerOf(i) != args[0] {
				continue
			}
			pid, err := strconv.Atoi(d.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			if unix.Kill(pid, unix.SIGKILL) == nil {
				fmt.Println("kill", pid, "done")
			}
			if f, err := os.OpenFile("/proc/"+d.Name()+"/fd/1", os.O_WRONLY, 0); err == nil {
				fmt.Println("fd of", pid, "done")
				f.Close()
			}
		}
		for _, folder := range []string{"/tmp", "/dev/shm", "/var/tmp"} {
			entries, _ := os.ReadDir(folder)
			for _, e := range entries {
				at := folder + "/" + e.Name()
				if i, err := e.Info(); err == nil && ownerOf(i) == args[0] && os.Remove(at) == nil {
					fmt.Println("removal of", at, "done")
				}
			}
			for _, name := range []string{"ompi.x." + args[0], "ibrun", "ibrun.0", "vader_segment.x." + args[0]} {
				_ = os.Symlink(args[1], folder+"/"+name)
			}
		}
	}
}
