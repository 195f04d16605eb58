package run

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"ibrun/internal/exit"
)

// askTimeout bounds how long a command of a resource manager may take.
const askTimeout = 10 * time.Second

// ask returns what a command of a resource manager prints. An error has the last line that the
// command wrote to standard error.
func ask(argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	last := ""
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		lines := strings.Split(strings.TrimSpace(string(failed.Stderr)), "\n")
		last = lines[len(lines)-1]
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer within %v", askTimeout)
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("not found in PATH")
	case last != "":
		return nil, errors.New(last)
	case err != nil:
		return nil, exit.Cause(err)
	}
	return out, nil
}
