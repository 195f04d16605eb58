// Package worker is a process that does one side of a benchmark. It answers lines with lines, so
// that it takes turns with other ways, and its CPU time is not mixed with theirs.
//
// It refuses to know what the lines mean.
package worker

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Worker is such a process, seen from the one that asks.
type Worker struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
}

// Self is this program, for Start.
const Self = "/proc/self/exe"

// Start starts a program. The name is for errors.
func Start(name, program string, args ...string) (*Worker, error) {
	w := &Worker{name: name, cmd: exec.Command(program, args...)}
	w.cmd.Stderr = os.Stderr
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewScanner(out)
	return w, w.cmd.Start()
}

// Ask sends a line and waits for the answer.
func (w *Worker) Ask(line string) (answer string, err error) {
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		return "", fmt.Errorf("%s: %w", w.name, err)
	}
	return w.Line()
}

// Line waits for a line.
func (w *Worker) Line() (string, error) {
	if !w.out.Scan() {
		return "", fmt.Errorf("%s ended", w.name)
	}
	return w.out.Text(), nil
}

// Close ends the worker's input, waits for its end, and returns the CPU time of its life.
func (w *Worker) Close() (time.Duration, error) {
	w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%s: %w", w.name, err)
	}
	return w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime(), nil
}

// Kill ends a worker that does not read its input.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill() // it may have ended
	_ = w.cmd.Wait()         // with the error that it was killed
}

// Serve is the worker's side: it calls a function for each line of standard input, which prints the
// answer itself, so that it can leave the printing out of what it measures.
func Serve(answer func(line string) error) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := answer(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
