package hostlist

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxFile is the size, in bytes, from which something is not a host file.
const MaxFile = 16 << 20

// File reads a host file: a host a line, as "host", "host:4", "host slots=4",
// "host:4:mlx5_0:1" or "user@host", "#" comments, and the lines of a Charm++
// node list ("group main", "host NAME ++cpus 4"). Errors begin with name:line.
func File(name string, content []byte) ([]Entry, error) {
	if len(content) > MaxFile {
		return nil, fmt.Errorf("%s: more than %d MiB: is it a host file?", name, MaxFile>>20)
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if i := bytes.IndexByte(content, 0); i >= 0 {
		return nil, fmt.Errorf("%s:%d: binary data: is it a host file?", name, 1+bytes.Count(content[:i], []byte("\n")))
	}
	var all []Entry
	total := 0
	for i, raw := range bytes.Split(content, []byte("\n")) {
		line, _, _ := strings.Cut(string(raw), "#")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "group" {
			continue
		}
		entries, err := fileLine(words)
		if err == nil {
			for _, e := range entries {
				total += int(e.Count)
			}
			if total > MaxHosts {
				err = fmt.Errorf("more than %d hosts", MaxHosts)
			}
		}
		if err != nil {
			if !utf8.Valid(raw) {
				err = fmt.Errorf("binary data: is it a host file?")
			}
			return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
		}
		all = append(all, entries...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no host in it", name)
	}
	return all, nil
}

func fileLine(words []string) ([]Entry, error) {
	if words[0] == "host" && len(words) > 1 {
		words = words[1:]
	}
	entries, err := one(words[0])
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(words); i++ {
		key, value, ok := strings.Cut(words[i], "=")
		if strings.HasPrefix(key, "++") && !ok {
			if i++; i == len(words) {
				return nil, fmt.Errorf("%q has no value", key)
			}
			value = words[i]
		}
		switch strings.ToLower(key) {
		case "slots", "cpu", "count", "++cpus":
			n, err := parseSlots(value, words[0])
			if err != nil {
				return nil, err
			}
			for k := range entries {
				entries[k].Slots = n
			}
		case "max_slots", "max-slots", "++speed", "++shell", "++pathfix", "++setup":
		default:
			return nil, fmt.Errorf("invalid %q after host %q: write host, host:4 or host slots=4", words[i],
				words[0])
		}
	}
	return entries, nil
}
