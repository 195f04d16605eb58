package native

import (
	"errors"
	"strings"
)

const blank = " \t\r\n"

// words takes a line apart as OpenSSH does (readconf.c, misc.c: strdelim and
// argv_split): a keyword, then blanks or one "=", then words, some of them
// quoted, up to a "#" that begins a word. An empty line has no keyword.
func words(line string) (keyword string, args []string, err error) {
	line = strings.TrimLeft(strings.TrimRight(line, blank+"\f"), " \t")
	if line == "" || line[0] == '#' {
		return "", nil, nil
	}
	var rest string
	if line[0] == '"' {
		end := strings.IndexByte(line[1:], '"')
		if end < 0 {
			return "", nil, errors.New("a quote is not closed")
		}
		keyword, rest = line[1:1+end], line[2+end:]
	} else {
		end := strings.IndexAny(line, blank+"=\"")
		if end < 0 {
			end = len(line)
		}
		keyword, rest = line[:end], line[end:]
	}
	rest = strings.TrimLeft(rest, blank)
	rest = strings.TrimLeft(strings.TrimPrefix(rest, "="), blank)
	args, err = split(rest)
	return strings.ToLower(keyword), args, err
}

// split makes words of the part behind the keyword.
func split(s string) (args []string, err error) {
	for i := 0; i < len(s); i++ {
		if s[i] == ' ' || s[i] == '\t' {
			continue
		}
		if s[i] == '#' {
			break
		}
		var word []byte
		quote := byte(0)
		for ; i < len(s); i++ {
			switch c := s[i]; {
			case c == '\\' && i+1 < len(s) && (strings.IndexByte(`'"\`, s[i+1]) >= 0 || quote == 0 && s[i+1] == ' '):
				i++
				word = append(word, s[i])
				continue
			case quote == 0 && (c == ' ' || c == '\t'):
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
				continue
			case quote != 0 && c == quote:
				quote = 0
				continue
			default:
				word = append(word, c)
				continue
			}
			break
		}
		if quote != 0 {
			return nil, errors.New("a quote is not closed")
		}
		args = append(args, string(word))
	}
	return args, nil
}
