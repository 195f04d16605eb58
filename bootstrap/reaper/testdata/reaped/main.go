// Command reaped is a reaper whose agent does what the test says: "exit" with a
// code, "take" signals and exit, "die" of a signal, or "leave" a process behind that has forked away, to die
// of a signal. Whatever it is, it waits for a line of standard input first, or for
// the reaper's death, which it tells.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"ibrun/bootstrap/reaper"
)

func main() {
	switch args := os.Args[1:]; args[0] {
	case reaper.Role:
		os.Exit(reaper.Main(args[1:]))
	case reaper.Contain:
		os.Exit(reaper.ContainMain(args[1:]))
	case reaper.Inside:
		os.Exit(reaper.InsideMain(args[1:]))
	case reaper.Sweep:
		os.Exit(reaper.SweepMain(args[1:]))
	case reaper.Agent:
		number, err := strconv.Atoi(args[2])
		if err != nil {
			panic(err)
		}
		agent(args[1], number)
	}
}

func agent(what string, number int) {
	if what == "leave" {
		out, err := exec.Command("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!").Output()
		if err != nil {
			panic(err)
		}
		os.Stdout.Write(out)
	}
	if what == "take" {
		tell()
	}
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	fmt.Printf("%d %d %d %s;%s;%d;%d\n", os.Getppid(), os.Getpid(), sid, os.Getenv("GREETING"), os.Getenv("GOMAXPROCS"),
		len(os.Environ()), len(os.Args))
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(reaper.Pipe, "reaper"))
		fmt.Println("no reaper")
		os.Exit(0)
	}()
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if what == "exit" || what == "take" {
		os.Exit(number)
	}
	_ = syscall.Kill(os.Getpid(), syscall.Signal(number))
	select {}
}

// tell prints the signals that the reaper passes on, as lines, while the agent waits.
func tell() {
	for _, s := range reaper.Passed {
		c := make(chan os.Signal, 1)
		signal.Notify(c, reaper.AsPassed(s))
		go func() {
			for range c {
				fmt.Println("got", int(s))
			}
		}()
	}
}
