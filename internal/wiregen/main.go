// Command wiregen generates the Go types of all messages, the code that encodes and decodes them, and the tables of
// docs/dev/protocol.md. Its input is bootstrap/wire/schema.txt, which describes its own syntax at the beginning. Run
// the command with "go generate ./bootstrap/wire".
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

// Paths of the schema and of the page with the tables, relative to the root of the repository.
const (
	schemaFile = "bootstrap/wire/schema.txt"
	pageFile   = "docs/dev/protocol.md"
)

// The generated tables replace the text between these two lines of pageFile.
const (
	tablesBegin = "<!-- wiregen: begin -->\n"
	tablesEnd   = "<!-- wiregen: end -->\n"
)

func main() {
	root := "../.." // go generate runs in the directory of the package
	files, err := generate(root)
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(root, name), text, 0o644))
	}
	if err != nil {
		log.Fatalln("wiregen:", err)
	}
}

// generate returns the contents of all generated files. root is the path of the root of the repository, and the keys
// are paths relative to it. The result includes pageFile, with the hand-written text of the file on disk.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, schemaFile))
	if err != nil {
		return nil, err
	}
	page, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		return nil, err
	}
	s, err := parse(string(text))
	if err != nil {
		return nil, err
	}
	before, rest, _ := strings.Cut(string(page), tablesBegin)
	_, after, ok := strings.Cut(rest, tablesEnd)
	if !ok {
		return nil, fmt.Errorf("%s: no line %s", pageFile, strings.TrimSpace(tablesBegin))
	}
	files, err := s.code()
	if err == nil {
		files[pageFile] = []byte(before + tablesBegin + execute("tables", s) + tablesEnd + after)
	}
	return files, err
}
