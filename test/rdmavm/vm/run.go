// Package vm runs a command in a virtual machine, the guest, with Soft-RoCE devices. For each command Run boots
// Debian's kernel in a new guest under qemu. The command sees the files of the host. Files that it writes stay in the
// guest's memory, except those in one shared folder. The program that calls Run is also the first process of the guest,
// where it must call Guest.
//
// The host needs qemu and the package tools of Debian. It does not need an installed kernel package.
package vm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Unlimited is the value of Config.Memlock for no limit.
const Unlimited = uint64(unix.RLIM_INFINITY)

// MostDevices is the largest value of Config.Devices.
const MostDevices = 64

// Config describes a command and its machine.
type Config struct {
	Command        []string
	Dir            string    // the working directory, a folder of the host
	Env            []string  // the environment; Run adds RDMAVM=1
	Stdin          io.Reader // nil means /dev/null
	Stdout, Stderr io.Writer

	Devices int    // the number of Soft-RoCE devices, up to MostDevices
	CPUs    int    // the number of CPUs, up to MostCPUs; 0 means one
	Counted bool   // advance the guest's clock by 1 ns for each instruction (-icount of qemu)
	MiB     int    // the guest's memory in MiB, in which files that the command writes are kept, too
	Share   string // a folder of the host in which the command may change files, or ""
	Memlock uint64 // the limit of locked memory in bytes, also for root; see Unlimited
}

// MostCPUs is the largest value of Config.CPUs.
const MostCPUs = 16

// bootTime limits the time from the start of qemu to the first frame from the guest. On an idle host the guest takes 3
// s to boot. If dozens of processes share two cores, it takes minutes.
const bootTime = 4 * time.Minute

// Run boots a guest, runs the command in it and returns the exit code of the command. As in a shell, the code is 128 +
// N if signal N killed the command, 127 if the program does not exist, and 126 if it cannot be started. Run returns an
// error if the guest fails or ctx is done. qemu has ended when Run returns, and is killed if this process is killed.
func Run(ctx context.Context, image Image, cfg Config) (code int, err error) {
	if err := requirePrograms("qemu-system-x86_64", "qemu-system-x86", "ip", "iproute2", "rdma", "iproute2"); err != nil {
		return 0, err
	}
	first, err := initramfs(image)
	if err != nil {
		return 0, err
	}
	defer first.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer ours.Close()
	defer theirs.Close()

	console := &tail{}
	qemu := exec.Command("qemu-system-x86_64", arguments(image, cfg)...)
	qemu.Stdout, qemu.Stderr = console, console
	qemu.ExtraFiles = []*os.File{theirs, first}
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	// The kernel sends Pdeathsig when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := qemu.Start(); err != nil {
		return 0, err
	}
	theirs.Close()
	booted := make(chan struct{})
	type result struct {
		code int
		err  error
	}
	done := make(chan result, 1)
	go func() {
		code, err := converse(newLine(ours), cfg, func() { close(booted) })
		done <- result{code, err}
	}()
	boot := time.NewTimer(bootTime)
	defer boot.Stop()
	var r result
	for waiting := true; waiting; {
		select {
		case r = <-done:
			waiting = false
		case <-booted:
			boot.Stop()
			booted = nil
		case <-boot.C:
			r.err, waiting = fmt.Errorf("the kernel did not come up within %v", bootTime), false
		case <-ctx.Done():
			r.err, waiting = context.Cause(ctx), false
		}
	}
	_ = qemu.Process.Kill() // the result and all output before it have been received, or an error has occurred
	_ = qemu.Wait()
	if r.err != nil {
		return 0, fmt.Errorf("%w%s", r.err, console)
	}
	return r.code, nil
}

// converse exchanges frames with the guest until it receives the exit code of the command, which it returns. It calls
// booted when the guest sends its first frame.
func converse(l *line, cfg Config, booted func()) (code int, err error) {
	for {
		kind, content, err := l.receive()
		if err != nil {
			return 0, errors.New("the machine ended before the command did")
		}
		switch kind {
		case frameUp:
			booted()
			j := job{cfg.Command, cfg.Dir, cfg.Env, cfg.Share, cfg.Devices, cfg.Memlock, cfg.Stdin != nil}
			if err = l.sendJSON(frameJob, j); cfg.Stdin != nil {
				go func() {
					_ = l.stream(frameInput, cfg.Stdin) // an error ends the input, too
					_ = l.send(frameInput, nil)
				}()
			}
		case frameOut:
			_, err = cfg.Stdout.Write(content)
		case frameErr:
			_, err = cfg.Stderr.Write(content)
		case frameEnd:
			return code, json.Unmarshal(content, &code)
		case frameFailed:
			return 0, errors.New("in the guest: " + string(content))
		}
		if err != nil {
			return 0, err
		}
	}
}

// Numbers of the descriptors that qemu inherits.
const (
	lineFD  = 3
	firstFD = 4
)

// arguments returns the arguments of qemu. The command line of the guest's kernel must not contain tsc=reliable,
// because it disables the clock watchdog. On a busy host the kernel can measure a rate of the TSC that is wrong by a
// factor of nine. The watchdog detects this and selects another clock.
func arguments(image Image, cfg Config) []string {
	args := []string{
		"-machine", "q35", "-cpu", "max", "-smp", fmt.Sprint(max(1, cfg.CPUs)), "-m", fmt.Sprint(cfg.MiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-kernel", image.Kernel, "-initrd", fmt.Sprintf("/proc/self/fd/%d", firstFD),
		"-append",
		"console=ttyS0 quiet panic=-1 oops=panic nokaslr mitigations=off audit=0 random.trust_cpu=on " +
			"no_timer_check cryptomgr.notests",
		"-device", "virtio-serial-pci", "-chardev", fmt.Sprintf("socket,id=line,fd=%d", lineFD), "-device",
		"virtserialport,chardev=line,name=" + portName,
	}
	// Use KVM only if the CPU reports virtualization extensions. Otherwise /dev/kvm, if it exists, belongs to kvm_pvm,
	// which cannot run an unmodified kernel.
	if cpu, err := os.ReadFile("/proc/cpuinfo"); !cfg.Counted && err == nil && (strings.Contains(string(cpu), " vmx") ||
		strings.Contains(string(cpu), " svm")) {
		args = append(args, "-accel", "kvm")
	}
	args = append(args, "-accel", "tcg") // used if KVM does not work
	if cfg.Counted {
		args = append(args, "-icount", "shift=0,sleep=off") // 1 ns for each instruction; skip idle time
	}
	folder := func(tag, path, more string) {
		args = append(args, "-fsdev", fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap%s", tag,
			strings.ReplaceAll(path, ",", ",,"), more),
			"-device", fmt.Sprintf("virtio-9p-pci,fsdev=%[1]s,mount_tag=%[1]s", tag))
	}
	folder(hostTag, "/", ",readonly=on")
	if cfg.Share != "" {
		folder(shareTag, cfg.Share, "")
	}
	return args
}

// initramfs returns a file in memory with the first file system of the guest, as cpio archives. It contains the modules
// of the image, empty folders for mounts, and this program at the path Init.
func initramfs(image Image) (*os.File, error) {
	modules, err := os.ReadFile(image.Modules)
	if err != nil {
		return nil, err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("initramfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "initramfs")
	_, err = file.Write(modules)
	a := archive{to: file, err: err}
	for _, dir := range []string{procDir, sysDir, hostDir, overDir, rootDir} {
		a.dir(dir[1:])
	}
	a.program(Init[1:], self)
	if err := a.end(); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// socketPair returns the two ends of a connection: ours for this process, and theirs for qemu.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "line"), os.NewFile(uintptr(fds[1]), "line"), nil
}

// tail is an io.Writer that keeps only the last tailLength bytes. Run uses it for the output of qemu, which includes
// the guest's console.
type tail struct{ text []byte }

const tailLength = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-tailLength):]
	return len(b), nil
}

func (t *tail) String() string {
	text := strings.TrimSpace(strings.ReplaceAll(string(t.text), "\r", ""))
	if text == "" {
		return ""
	}
	return "; the console's end:\n" + text
}
