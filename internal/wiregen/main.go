// Command wiregen generates the codec of the frames and its documentation from bootstrap/wire/schema.txt, which
// describes its own form. Run it with "go generate ./bootstrap/wire".
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Paths from the root of the repository.
const (
	schemaFile = "bootstrap/wire/schema.txt"
	pageFile   = "docs/dev/protocol.md"
)

// The generated tables of the page are between these two lines.
const (
	tablesBegin = "<!-- wiregen: begin -->\n"
	tablesEnd   = "<!-- wiregen: end -->\n"
)

func main() {
	root := "../.." // go generate runs in the directory of the package
	files, err := generate(root)
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wiregen:", err)
		os.Exit(1)
	}
}

// generate returns the contents of all generated files by their paths from root.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, schemaFile))
	if err != nil {
		return nil, err
	}
	s, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	files, err := s.code()
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		return nil, err
	}
	before, rest, ok := strings.Cut(string(page), tablesBegin)
	_, after, ok2 := strings.Cut(rest, tablesEnd)
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s: no line %s", pageFile, strings.TrimSpace(tablesBegin))
	}
	files[pageFile] = []byte(before + tablesBegin + s.tables() + tablesEnd + after)
	return files, nil
}
