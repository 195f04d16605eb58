package launch

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/test/bench/figure"
)

// controlledJob is a running job of ibrun that subcommands of `ibrun ctl` act on.
type controlledJob struct {
	ibrun, dir string // the path of ibrun, and the folder of the control socket
	job        *exec.Cmd
}

func start(ibrun string, args ...string) (*controlledJob, error) {
	dir, err := os.MkdirTemp("", "ctl") // short, because the path of a socket is limited to 107 bytes
	if err != nil {
		return nil, err
	}
	r := &controlledJob{ibrun: ibrun, dir: dir}
	r.job = r.command(args...)
	if err := r.job.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

func (r *controlledJob) command(args ...string) *exec.Cmd {
	c := exec.Command(r.ibrun, args...)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+r.dir)
	return c
}

func (r *controlledJob) close() {
	_ = r.job.Process.Signal(syscall.SIGTERM)
	_ = r.job.Wait() // returns an error, because the job was terminated
	os.RemoveAll(r.dir)
}

// way returns a Way that measures how long ibrun runs with args.
func (r *controlledJob) way(name string, args ...string) *figure.Way {
	return figure.Timed(name, func() error {
		_, err := figure.Run(patience, r.command(args...))
		return err
	})
}

// ctl returns a Way that measures how long `ibrun ctl` runs with the subcommand verb on the job. Before ctl returns,
// it repeats the command until it succeeds, because the job may still be starting.
func (r *controlledJob) ctl(name, verb string, args ...string) (*figure.Way, error) {
	w := r.way(name, append([]string{"ctl", verb, "--job", strconv.Itoa(r.job.Process.Pid)}, args...)...)
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if _, err := w.Do(); err == nil {
			return w, nil
		} else if time.Now().After(end) {
			return nil, fmt.Errorf("the job did not start: %w", err)
		}
	}
}

// maxOfLaunch limits the time of ctl exec, as a fraction of the time of a launch.
const maxOfLaunch = 0.15

// Exec compares `ibrun ctl exec true` on a running job with `ibrun true` on the same nodes of a virtual cluster.
func Exec(args []string) error {
	var ibrun string
	var nodes, rounds int
	if err := figure.Parse(args, &ibrun, &nodes, &rounds); err != nil {
		return err
	}
	list := strings.Join(figure.Names(nodes), ",")
	r, err := start(ibrun, "--hosts", list, "sleep", "3600")
	if err != nil {
		return err
	}
	defer r.close()
	inside, err := r.ctl("ctl exec", "exec", "--", "true")
	if err != nil {
		return err
	}
	launch := r.way("launch", "--hosts", list, "true")
	if err := figure.Measure(1, rounds, inside, launch); err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("%d nodes, medians of %d turns: ctl exec %.1f ms, a launch %.1f ms\n", nodes, rounds, inside.Median(),
		launch.Median())
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtMost(fmt.Sprintf("%d nodes, ctl exec / launch", nodes), inside.Over(launch), maxOfLaunch)
	return bounds.Err()
}

// Resize measures how long a running job takes to grow by four nodes of a virtual cluster and to shrink by four
// nodes, and how long a restart of the job on all nodes takes. PROGRAM is examples/resize. Resize also prints the
// published times of Charm++ for the same changes, which were measured on another machine.
func Resize(args []string) error {
	const by = 4
	var ibrun, program string
	var nodes, rounds int
	if err := figure.Parse(args, &ibrun, &program, &nodes, &rounds); err != nil {
		return err
	}
	if nodes < by+2 {
		return fmt.Errorf("%d nodes are too few", nodes)
	}
	names := figure.Names(nodes)
	work := []string{"-ppn", "1", program, "-pause=1ms"}
	r, err := start(ibrun, append(append([]string{"--hosts", strings.Join(names[:nodes-by], ",")}, work...),
		"-every", "1", "-steps", "1000000000")...)
	if err != nil {
		return err
	}
	defer r.close()
	grow, err := r.ctl("grow", "grow", strings.Join(names[nodes-by:], ","))
	if err != nil {
		return err
	}
	shrink, err := r.ctl("shrink", "shrink", strconv.Itoa(by))
	if err != nil {
		return err
	}
	restartArgs := append([]string{"--hosts", strings.Join(names, ",")}, work...)
	restart := r.way("restart", append(restartArgs, "-steps", "1")...)
	if err := figure.Measure(1, rounds, grow, shrink, restart); err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("a job of %d nodes, medians of %d turns\n", nodes-by, rounds)
	const beside = "  %-6s by %d      %8.1f ms   (Charm++ has published %.1f s)\n"
	fmt.Printf(beside, "grow", by, grow.Median(), 7.2)
	fmt.Printf(beside, "shrink", by, shrink.Median(), 2.7)
	fmt.Printf("  restart on %d    %8.1f ms   (ibrun, from its start to its end, with one step)\n", nodes,
		restart.Median())
	return nil
}
