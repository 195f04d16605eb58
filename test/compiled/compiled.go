// Package compiled compiles C and C++ programs for tests. It keeps them in the user's cache directory, because
// compiling a program takes longer than most tests.
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

	"ibrun/test/executable"
)

// cache is the user's cache directory. It is determined when the package is initialized, because product.Run later sets
// XDG_CACHE_HOME to a temporary folder.
var cache, errCache = os.UserCacheDir()

// Program runs the compiler argv[0] with the arguments argv[1:] and "-o path", which writes a program, library or
// object file to path. If an earlier call had the same inputs (see digest), Program copies the cached result to path
// instead of running the compiler.
func Program(path string, argv ...string) error {
	if errCache != nil {
		return errCache
	}
	sum, err := digest(argv)
	if err != nil {
		return fmt.Errorf("%s: %w: make test-LABEL installs the packages that its tests need", argv[0], err)
	}
	cached := filepath.Join(cache, "ibrun-programs", sum)
	text, err := os.ReadFile(cached)
	if err == nil {
		err = executable.Write(path, text)
	} else {
		err = link(cached, path, argv)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// digest returns a checksum of the inputs of a compiler, as a string of hexadecimal digits. The inputs are the path,
// size and modification time of the compiler argv[0], the arguments, the contents of arguments that are files, and the
// contents of all *.h files in the folders of these files.
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

// link runs the compiler argv with the output file path, and copies this file to cached.
func link(cached, path string, argv []string) error {
	if out, err := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], "-o", path)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(cached), 0o755); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", cached, os.Getpid())
	return errors.Join(os.WriteFile(part, text, 0o644), os.Rename(part, cached))
}
