package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"ibrun/internal/exit"
)

// defaultPath is where programs are looked for if the environment has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// FindProgram returns the path of the file that the command name runs. If name contains a slash, it is a path relative
// to dir. Otherwise FindProgram searches the directories of the last PATH in env, or of defaultPath. The error is an
// exit.Error with the code NotFound if there is no such file, or NotExecutable if this process cannot execute it.
func FindProgram(name, dir string, env []string) (path string, err error) {
	if name == "" {
		return "", exit.With(exit.NotFound, errors.New("the program's name is empty"))
	}
	if strings.Contains(name, "/") {
		path = within(dir, name)
		return path, checkExecutable(path)
	}
	list := defaultPath
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			list = v
		}
	}
	err = exit.With(exit.NotFound, fmt.Errorf("%s: not found in PATH (%s)", name, list))
	for _, d := range filepath.SplitList(list) {
		path = filepath.Join(within(dir, d), name)
		e := checkExecutable(path)
		if e == nil {
			return path, nil
		}
		if exit.Code(e) == exit.NotExecutable && exit.Code(err) == exit.NotFound {
			err = e
		}
	}
	return "", err
}

// within is a path as seen from a directory.
func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// checkExecutable returns an exit.Error with the code NotFound if there is no file at path, and with the code
// NotExecutable if this process cannot execute the file.
func checkExecutable(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return exit.With(exit.NotFound, fmt.Errorf("%s: no such file", path))
	case err != nil:
		return exit.With(exit.NotExecutable, fmt.Errorf("%s: %w", path, exit.Cause(err)))
	case st.IsDir():
		return exit.With(exit.NotExecutable, fmt.Errorf("%s: is a directory", path))
	case syscall.Access(path, 1) != nil:
		return exit.With(exit.NotExecutable, fmt.Errorf("%s: is not executable; try chmod +x", path))
	}
	return nil
}
