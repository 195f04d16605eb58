package main

import (
	"fmt"
	"io"
	"os"

	"ibrun/bootstrap/ccs"
	"ibrun/internal/exit"
)

// mostKeys bounds the file of --ccs-auth, in bytes.
const mostKeys = 64 << 10

// readKeys reads the keys of --ccs-auth; no file: none. Others must not be able to read them.
func readKeys(file string) (ccs.Keys, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, exit.Usagef("--ccs-auth: %v", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return nil, exit.Usagef("--ccs-auth %s: it is no file that only its owner may read; hint: chmod 600", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, mostKeys))
	if err != nil {
		return nil, fmt.Errorf("--ccs-auth: %w", err)
	}
	keys, err := ccs.ParseKeys(string(text))
	if err != nil {
		return nil, exit.Usagef("--ccs-auth %s: %v", file, err)
	}
	return keys, nil
}
