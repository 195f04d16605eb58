// Command vcluster brings a virtual cluster up: `go run ./test/vcluster up 16` stays until Ctrl-C
// and says how to enter, `go run ./test/vcluster up 16 -- command...` runs a command on its front
// and tears it down.
//
// It refuses to do anything but parse its arguments: the cluster is package cluster's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/test/vcluster/cluster"
)

func main() { os.Exit(run(os.Args[1:])) }

const usage = `usage: vcluster up [options] N                 until Ctrl-C
       vcluster up [options] N -- command...   one command on the front; its exit code
options: -rsh          also a real rsh server on each node
         -no-ssh       no sshd: the rsh stand-in (/run/vcluster/vrsh) only
         -kex NAMES    the sshd's key exchange, for example curve25519-sha256
         -share DIRS   directories that the nodes see too, with commas between them
(go run makes every exit code other than 0 a 1: build it, go build -o bin/vcluster ./test/vcluster, where the code matters)
`

func run(args []string) int {
	var cfg cluster.Config
	var share string
	flags := flag.NewFlagSet("vcluster", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.BoolVar(&cfg.RSH, "rsh", false, "")
	flags.BoolVar(&cfg.NoSSH, "no-ssh", false, "")
	flags.StringVar(&cfg.Kex, "kex", "", "")
	flags.StringVar(&share, "share", "", "")
	if len(args) == 0 || args[0] != "up" {
		flags.Usage()
		return 2
	}
	if flags.Parse(args[1:]) != nil {
		return 2
	}
	rest := flags.Args()
	n, err := strconv.Atoi(flags.Arg(0))
	if err != nil || len(rest) == 2 || len(rest) > 2 && rest[1] != "--" {
		flags.Usage()
		return 2
	}
	cfg.Nodes = n
	if share != "" {
		cfg.Share = strings.Split(share, ",")
	}
	var command []string
	if len(rest) > 2 {
		command = rest[2:]
	}
	code, err := serve(cfg, command)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// grace is how long a command may take to end after a signal that was passed on.
const grace = 15 * time.Second

// serve brings the cluster up, waits for the command or for Ctrl-C, and takes it down.
func serve(cfg cluster.Config, command []string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	begin := time.Now()
	c, err := cluster.Up(ctx, cfg)
	if err != nil {
		return 125, err
	}
	defer c.Close()
	if len(command) == 0 {
		enter := c.Command(ctx)
		fmt.Printf("vcluster: %d nodes up in %.1fs: %s to node%04d, user root; Ctrl-C takes them down\n", cfg.Nodes,
			time.Since(begin).Seconds(), c.Nodes()[0], cfg.Nodes)
		fmt.Printf("enter the front from another terminal: nsenter --net=/proc/%[1]s/ns/net --uts=/proc/%[1]s/ns/uts "+
			"--mount=/proc/%[1]s/ns/mnt --wd=. bash\nthere: ssh node0001 hostname; vrsh node0001 hostname (%s)\n",
			enter.Args[1], c.VRSH())
		<-ctx.Done()
		return 0, c.Close()
	}
	cmd := c.Command(context.Background(), command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 125, errors.Join(err, c.Close())
	}
	// A terminal's Ctrl-C reaches the command by itself; what was sent to this process alone is
	// passed on. A command that does not end in time is killed.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
			time.AfterFunc(grace, func() { _ = cmd.Process.Kill() })
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 125, errors.Join(err, c.Close())
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), c.Close()
	}
	return status.ExitStatus(), c.Close()
}
