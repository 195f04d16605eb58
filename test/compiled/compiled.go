// Package compiled compiles C programs for tests. It keeps them in the user's cache, because a compiler takes more
// time than most tests.
package compiled

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"ibrun/internal/executable"
)

// cache is the user's cache directory. It is read before a TestMain sets another one for ibrun.
var cache, errCache = os.UserCacheDir()

// Program runs a compiler that links a program or a library to path. It copies the result of an earlier call from
// the user's cache if the compiler, its arguments, the files among them and the headers beside these are unchanged.
func Program(path string, argv ...string) error {
	if errCache != nil {
		return errCache
	}
	sum, err := digest(argv)
	if err != nil {
		return fmt.Errorf("%s: %w: test/packages installs what a label needs", argv[0], err)
	}
	kept := filepath.Join(cache, "ibrun-programs", sum)
	text, err := os.ReadFile(kept)
	if err == nil {
		err = executable.Write(path, text)
	} else {
		err = link(kept, path, argv)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// digest returns a checksum of all that determines a compiler's output: the compiler, its arguments and the files.
func digest(argv []string) (string, error) {
	compiler, err := exec.LookPath(argv[0])
	if err != nil {
		return "", err
	}
	info, err := os.Stat(compiler)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, compiler, info.Size(), info.ModTime())
	var headers []string
	for _, arg := range argv[1:] {
		text, err := os.ReadFile(arg)
		if err != nil {
			fmt.Fprintln(sum, arg)
			continue
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(arg), len(text), text)
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(arg), "*.h"))
		headers = append(headers, found...)
	}
	slices.Sort(headers)
	for _, header := range slices.Compact(headers) {
		text, err := os.ReadFile(header)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(header), len(text), text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// link runs the compiler, and copies the program to the cache.
func link(kept, path string, argv []string) error {
	if out, err := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], "-o", path)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", kept, os.Getpid())
	return errors.Join(os.WriteFile(part, text, 0o644), os.Rename(part, kept))
}
