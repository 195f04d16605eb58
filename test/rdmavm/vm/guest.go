package vm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Init is the path of this program in the guest. The guest's kernel starts it as the first process.
const Init = "/init"

// Folders in the guest, the mount tags of the folders that qemu shares with the guest, and the name of the serial port.
const (
	moduleDir = "/modules"
	procDir   = "/proc"
	sysDir    = "/sys"
	hostDir   = "/host" // the host's files, read-only
	overDir   = "/over" // a tmpfs for the files that are written in the guest
	rootDir   = "/root" // an overlay of overDir over hostDir, which is the root directory of the command
	hostTag   = "host"
	shareTag  = "share"
	portName  = "line"
)

// Guest runs as the first process of the guest: it executes the command and sends the result to the host. It never
// returns, because the kernel panics if its first process ends. The host kills qemu when it has received the result.
func Guest() {
	runtime.LockOSThread() // setLimits changes capabilities of this thread only, which the command inherits
	l, err := begin()
	if err == nil {
		err = serve(l)
	}
	if err != nil {
		fmt.Println("rdmavm:", err)
		if l != nil {
			_ = l.send(frameFailed, []byte(err.Error()))
		} else {
			_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		}
	}
	for {
		_ = unix.Pause()
	}
}

// begin mounts /proc, /sys and /dev, loads the kernel modules, and opens the serial port to the host.
func begin() (*line, error) {
	m := mounts{}
	m.mount(procDir, "proc", "proc", 0, "")
	m.mount(sysDir, "sysfs", "sysfs", 0, "")
	m.mount("/dev", "devtmpfs", "devtmpfs", 0, "")
	if m.err != nil {
		return nil, m.err
	}
	entries, err := os.ReadDir(moduleDir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if err := load(filepath.Join(moduleDir, entry.Name())); err != nil {
			return nil, fmt.Errorf("loading %s: %w", entry.Name(), err)
		}
	}
	port, err := openPort()
	if err != nil {
		return nil, err
	}
	return newLine(port), nil
}

func load(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.FinitModule(int(file.Fd()), "", 0)
}

// openPort opens the serial port to the host. It waits up to 10 s until the device exists, because the kernel creates
// it some time after its driver is loaded.
func openPort() (*os.File, error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == portName {
				fd, err := unix.Open("/dev/"+filepath.Base(filepath.Dir(name)), unix.O_RDWR|unix.O_CLOEXEC, 0)
				return os.NewFile(uintptr(fd), portName), err
			}
		}
	}
	return nil, errors.New("no such serial port: " + portName)
}

// serve receives the job from the host, runs it and sends the result.
func serve(l *line) error {
	if err := l.send(frameUp, nil); err != nil {
		return err
	}
	kind, content, err := l.receive()
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(content, &j); err != nil || kind != frameJob {
		return fmt.Errorf("received %q, want a job: %w", kind, err)
	}
	if err := enterRoot(j.Share); err != nil {
		return err
	}
	if err := network(j.Devices); err != nil {
		return err
	}
	if err := setLimits(j.Memlock); err != nil {
		return err
	}
	code, err := run(l, j)
	if err != nil {
		return err
	}
	unix.Sync() // write changes in the shared folder to the host
	return l.sendJSON(frameEnd, code)
}

// mounts mounts file systems until the first error, which it keeps in err. After that it does nothing.
type mounts struct{ err error }

func (m *mounts) mount(target, kind, source string, flags uintptr, options string) {
	if m.err != nil {
		return
	}
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		m.err = fmt.Errorf("mount %s on %s: %w", kind, target, err)
	}
}

// enterRoot makes the host's file system the root directory of this process. Writes go to an overlay in memory, except
// in the folder share of the host. If share is "", all writes go to the overlay.
func enterRoot(share string) error {
	const plan9 = "trans=virtio,version=9p2000.L,msize=512000,"
	upper, work := overDir+"/upper", overDir+"/work"
	m := mounts{}
	m.mount(hostDir, "9p", hostTag, unix.MS_RDONLY, plan9+"cache=loose")
	m.mount(overDir, "tmpfs", "tmpfs", 0, "")
	if m.err == nil {
		m.err = errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755))
	}
	m.mount(rootDir, "overlay", "overlay", 0, "lowerdir="+hostDir+",upperdir="+upper+",workdir="+work)
	m.mount(rootDir+"/proc", "proc", "proc", 0, "")
	m.mount(rootDir+"/sys", "sysfs", "sysfs", 0, "")
	m.mount(rootDir+"/sys/fs/cgroup", "cgroup2", "cgroup2", 0, "")
	m.mount(rootDir+"/dev", "devtmpfs", "devtmpfs", 0, "")
	m.mount(rootDir+"/run", "tmpfs", "tmpfs", unix.MS_NOSUID, "mode=0755")
	if m.err == nil {
		m.err = errors.Join(os.MkdirAll(rootDir+"/dev/pts", 0o755), os.MkdirAll(rootDir+"/dev/shm", 0o1777),
			os.Symlink("/proc/self/fd", rootDir+"/dev/fd"))
	}
	m.mount(rootDir+"/dev/pts", "devpts", "devpts", 0, "ptmxmode=0666,mode=0620,gid=5")
	m.mount(rootDir+"/dev/shm", "tmpfs", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
	if share != "" {
		m.mount(rootDir+share, "9p", shareTag, 0, plan9+"cache=mmap")
	}
	if m.err != nil {
		return m.err
	}
	if err := unix.Chroot(rootDir); err != nil {
		return err
	}
	return os.Chdir("/")
}

// setLimits sets the limits of locked memory, in bytes, and of open files, which the command inherits. If memlock is
// not Unlimited, it also drops CAP_IPC_LOCK, because the limit does not apply to a process that has this capability.
func setLimits(memlock uint64) error {
	err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: memlock, Max: memlock})
	const files = 1 << 16
	err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}))
	if memlock < Unlimited {
		err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_IPC_LOCK, 0, 0, 0))
	}
	return err
}
