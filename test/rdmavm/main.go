// Command rdmavm runs commands that need RDMA devices on a machine without such devices. "rdmavm run -- command..."
// runs the command in a small virtual machine with Soft-RoCE devices. "rdmavm sys -- command..." runs the command on
// this machine, and shows it the files of a simulated HCA in /sys and /dev. Programs can list this HCA, but cannot open
// it.
//
// Package main parses the arguments and creates the files of the HCA. Package vm boots the virtual machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/test/rdmavm/vm"
)

const usage = `usage: rdmavm run [options] -- command...   run the command in a virtual machine with Soft-RoCE
         exit code: that of the command, 125 after an error of rdmavm itself, 2 for wrong usage
options: -devices 2      rxe0, rxe1, ... over eth0, eth1, ... with the addresses 10.77.0.1, 10.77.0.2, ...
         -cpus 1         number of CPUs; Soft-RoCE uses one for each queue pair
         -counted        advance the guest's clock 1 ns per instruction, independent of this machine's load
         -mem 1G         memory of the guest, which also holds the files that the command writes
         -share DIR      let the command change files below DIR; it can read all other files of this machine
         -memlock SIZE   limit of locked memory, such as 64k; the default is unlimited
         -i              pass standard input
         -timeout 5m     time limit for booting and running the command
       rdmavm image                         build an image of the newest kernel if it is missing, and print its path
       rdmavm sys [options] -- command...   run the command with a simulated HCA in /sys and /dev (as root)
options: -name mlx5_0 -lid 27 -state ACTIVE -layer InfiniBand -numa 0 -rate 100
`

// exitError is the exit code of rdmavm after an error of its own, for example if the virtual machine does not boot. A
// command that runs can also exit with this code. Only the message on standard error distinguishes the two cases.
const exitError = 125

func main() {
	if os.Getpid() == 1 && os.Args[0] == vm.Init {
		vm.Guest()
	}
	code, err := run(os.Args[1:])
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		code = 2
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "rdmavm:", err)
		code = exitError
	}
	os.Exit(code)
}

// leastMemory is the smallest value of -mem in bytes. With less memory the guest's kernel does not boot.
const leastMemory = 192 << 20

var errUsage = errors.New("usage")

func run(args []string) (int, error) {
	if len(args) == 0 {
		return 0, errUsage
	}
	switch args[0] {
	case "run":
		return inMachine(args[1:])
	case "image":
		image, err := vm.Build(log)
		if err == nil {
			fmt.Println(image.Kernel)
		}
		return 0, err
	case "sys":
		return withHCA(args[1:])
	case sysWithin:
		return 0, becomeWithHCA(args[1:])
	}
	return 0, errUsage
}

func log(line string) { fmt.Fprintln(os.Stderr, "rdmavm:", line) }

// options parses the options of a subcommand into flags, and returns the command that follows the options. It returns
// errUsage if an option is invalid or no command follows.
func options(flags *flag.FlagSet, args []string) ([]string, error) {
	flags.Usage = func() {}
	flags.SetOutput(os.Stderr)
	if flags.Parse(args) != nil || flags.NArg() == 0 {
		return nil, errUsage
	}
	return flags.Args(), nil
}

func inMachine(args []string) (int, error) {
	cfg := vm.Config{Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Memlock: vm.Unlimited}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	memory := size(1 << 30)
	flags.IntVar(&cfg.Devices, "devices", 2, "")
	flags.IntVar(&cfg.CPUs, "cpus", 1, "")
	flags.BoolVar(&cfg.Counted, "counted", false, "")
	flags.Var(&memory, "mem", "")
	flags.StringVar(&cfg.Share, "share", "", "")
	flags.Var((*size)(&cfg.Memlock), "memlock", "")
	input := flags.Bool("i", false, "")
	timeout := flags.Duration("timeout", 5*time.Minute, "")
	command, err := options(flags, args)
	if err != nil {
		return 0, err
	}
	if cfg.Devices < 0 || cfg.Devices > vm.MostDevices {
		return 0, fmt.Errorf("-devices %d: 0 to %d", cfg.Devices, vm.MostDevices)
	}
	if cfg.CPUs < 1 || cfg.CPUs > vm.MostCPUs {
		return 0, fmt.Errorf("-cpus %d: 1 to %d", cfg.CPUs, vm.MostCPUs)
	}
	if memory < leastMemory {
		return 0, fmt.Errorf("-mem: at least %dM", leastMemory>>20)
	}
	cfg.Command, cfg.MiB = command, int(memory>>20)
	if *input {
		cfg.Stdin = os.Stdin
	}
	if cfg.Dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	if cfg.Share, err = folder(cfg.Share); err != nil {
		return 0, err
	}
	image, err := vm.Cached(log)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), *timeout,
		fmt.Errorf("no end within the time-out of %v", *timeout))
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	return vm.Run(ctx, image, cfg)
}

// folder returns the absolute path, without symbolic links, of the folder name, the value of -share. If name is "", it
// returns "".
func folder(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	absolute, err := filepath.Abs(name)
	if err == nil {
		absolute, err = filepath.EvalSymlinks(absolute)
	}
	if err != nil {
		return "", err
	}
	if there, err := os.Stat(absolute); err != nil || !there.IsDir() {
		return "", fmt.Errorf("-share %s: not a folder", name)
	}
	return absolute, nil
}

// withHCA runs this program again in a new mount namespace, with the subcommand sysWithin and the arguments args, and
// returns its exit code. The exit code is 128 + N if signal N killed it.
func withHCA(args []string) (int, error) {
	if os.Getuid() != 0 {
		return 0, errors.New("mounting needs root")
	}
	runtime.LockOSThread() // Pdeathsig is sent when the thread that forked ends
	cmd := exec.Command("/proc/self/exe", append([]string{sysWithin}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// size is a flag.Value for a number of bytes. Its text is a number with an optional suffix k, M or G, such as 64k, or
// "unlimited".
type size uint64

func (s *size) String() string { return strconv.FormatUint(uint64(*s), 10) }

func (s *size) Set(text string) error {
	if text == "unlimited" {
		*s = size(vm.Unlimited)
		return nil
	}
	digits := strings.TrimRight(text, "kMG")
	shift, ok := map[string]int{"": 0, "k": 10, "M": 20, "G": 30}[text[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || !ok {
		return errors.New("invalid size: want 64k, 512M, 1G or unlimited")
	}
	*s = size(n << shift)
	return nil
}
