package pmi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// message is a line or a frame, taken apart.
type message struct {
	cmd    string
	multi  bool // a line mcmd=, the first of several
	fields []Pair
	odd    string // the first word of a line that is no field; empty: none
}

// get finds a field; the first one counts.
func (m message) get(name string) (string, bool) {
	for _, f := range m.fields {
		if f.Key == name {
			return f.Value, true
		}
	}
	return "", false
}

func (m message) value(name string) string {
	v, _ := m.get(name)
	return v
}

// thread is the mark by which a PMI-2 client finds the thread that waits: an
// address in hexadecimal. One that is no such thing is not echoed.
func (m message) thread() string {
	if mark := m.value("thrid"); len(mark) <= MaxKey {
		return mark
	}
	return ""
}

// mostLine is the longest line that we take, in bytes with its end: of the
// client's, so that a value too long can be refused politely.
func (e *Engine) mostLine() int { return e.cfg.MaxValue + maxLine }

// mostFrame is the longest frame that we take or send, without its length. It
// has room for a value of which each byte is escaped.
func (e *Engine) mostFrame() int { return max(maxFrame, 2*e.cfg.MaxValue+1024) }

// mostReply is the longest line that we send, with its end.
func (e *Engine) mostReply() int {
	if e.cfg.MaxValue > MaxValue {
		return e.mostLine()
	}
	return maxLine
}

// next finds the first whole line or frame of some bytes, and how many of
// them it takes; 0: there is none yet.
func (e *Engine) next(b []byte) (text string, n int, err error) {
	if len(b) == 0 {
		return "", 0, nil
	}
	if e.version == 2 {
		return e.nextFrame(b)
	}
	end := bytes.IndexByte(b, '\n')
	line := b[:min(len(b), e.mostLine())]
	if end >= 0 && end < len(line) {
		line = line[:end]
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return "", 0, errNUL // before the rest has come, too
	}
	if end >= e.mostLine() || end < 0 && len(b) >= e.mostLine() {
		return "", 0, fmt.Errorf("a line of more than %d bytes: %s", e.mostLine(), seen(string(b[:64])))
	}
	if end < 0 {
		return "", 0, nil
	}
	return string(b[:end]), end + 1, nil
}

// lengthSize is how many characters say a frame's length: digits, and spaces
// before or behind them.
const lengthSize = 6

func (e *Engine) nextFrame(b []byte) (text string, n int, err error) {
	if len(b) < lengthSize {
		return "", 0, nil
	}
	length, err := strconv.ParseUint(strings.Trim(string(b[:lengthSize]), " "), 10, 32)
	if err != nil {
		return "", 0, fmt.Errorf("a frame's length should be a number of %d characters, not %s", lengthSize,
			seen(string(b[:lengthSize])))
	}
	if length > uint64(e.mostFrame()) {
		return "", 0, fmt.Errorf("a frame of %d bytes; at most %d are taken", length, e.mostFrame())
	}
	n = lengthSize + int(length)
	if len(b) < n {
		return "", 0, nil
	}
	if bytes.IndexByte(b[lengthSize:n], 0) >= 0 {
		return "", 0, errNUL
	}
	return string(b[lengthSize:n]), n, nil
}

func (e *Engine) parse(text string) (message, error) {
	if e.version == 2 {
		return parseFrame(text)
	}
	return parseLine(text)
}

// parseLine takes a PMI-1 line apart, without its end. What follows value= is
// the value, whatever is in it.
func parseLine(text string) (m message, err error) {
	for rest := text; rest != ""; {
		var word string
		if strings.HasPrefix(rest, "value=") {
			word, rest = rest, ""
		} else {
			word, rest, _ = strings.Cut(rest, " ")
		}
		name, value, ok := strings.Cut(word, "=")
		switch {
		case word == "":
		case m.cmd == "" && ok && (name == "cmd" || name == "mcmd") && value != "":
			m.cmd, m.multi = value, name == "mcmd"
		case m.cmd == "":
			return m, errNoCommand(text)
		case !ok && m.odd == "":
			m.odd = word
		case ok:
			m.fields = append(m.fields, Pair{name, value})
		}
	}
	if m.cmd == "" {
		return m, errNoCommand(text)
	}
	return m, nil
}

// parseFrame takes a PMI-2 frame apart: name=value; and so on, where ;; in a
// value stands for one.
func parseFrame(text string) (m message, err error) {
	for rest := text; rest != ""; {
		name, after, ok := strings.Cut(rest, "=")
		end := 0
		for ok && end < len(after) && (after[end] != ';' || strings.HasPrefix(after[end:], ";;")) {
			if after[end] == ';' {
				end++
			}
			end++
		}
		if !ok || end >= len(after) || strings.Contains(name, ";") {
			return m, fmt.Errorf("a frame that is not name=value; and so on: %s", seen(text))
		}
		value := strings.ReplaceAll(after[:end], ";;", ";")
		rest = after[end+1:]
		if m.cmd != "" {
			m.fields = append(m.fields, Pair{name, value})
			continue
		}
		if name != "cmd" || value == "" {
			return m, errNoCommand(text)
		}
		m.cmd = value
	}
	if m.cmd == "" {
		return m, errNoCommand(text)
	}
	return m, nil
}

func errNoCommand(text string) error {
	return errors.New("no command: " + seen(text))
}

// isAbort says whether a line or frame may overtake a request that waits.
func (e *Engine) isAbort(text string) bool {
	m, err := e.parse(text)
	return err == nil && m.cmd == "abort" && !m.multi && e.version != 0
}

// done replies that a command was done, with the values of its row.
func (e *Engine) done(c *command, values ...string) {
	if c.name == "name-lookup" {
		values = append(values, values...) // once for each kind of client
	}
	if !e.reply(c, c.ok, values...) {
		e.refuse(c, "value does not fit")
	}
}

// reply sends form, one of the replies of c, with values in place of its % signs. It sends nothing and
// returns false if write cannot build the reply.
func (e *Engine) reply(c *command, form string, values ...string) (ok bool) {
	text, ok := e.write(c.reply, form, values)
	if ok {
		e.steps = append(e.steps, Step{Bytes: text})
	}
	return ok
}

// refuse replies that a command was not done, and why. PMI-1 clients read the
// reason up to a space.
func (e *Engine) refuse(c *command, why string) {
	if c.reply == "" {
		return
	}
	why = clean(why)
	if e.version != 2 {
		why = strings.ReplaceAll(why, " ", "_")
	}
	e.reply(c, c.no, why)
}

// unknown refuses a PMI-2 command that is in no row.
func (e *Engine) unknown(m message) {
	e.thrid = m.thread()
	e.refuse(&command{reply: clean(m.cmd) + "-response", no: refused2}, "unknown command")
}

// fits says whether a value fits the reply to a command.
func (e *Engine) fits(c *command, value string) bool {
	_, ok := e.write(c.reply, c.ok, []string{value})
	return ok
}

// write returns the reply cmd with values in place of the % signs of form. ok is false if a value has a
// byte that the protocol cannot carry, or if a value or the reply is too long.
func (e *Engine) write(cmd, form string, values []string) (text []byte, ok bool) {
	framed := e.version == 2
	switch {
	case !framed:
		text = append(text, "cmd="+cmd+" "...)
	case e.thrid == "":
		text = append(text, "      cmd="+escape(cmd)+";"...)
	default:
		text = append(text, "      cmd="+escape(cmd)+";thrid="+escape(e.thrid)+";"...)
	}
	for i, part := range strings.Split(form, "%") {
		text = append(text, part...)
		if i >= len(values) {
			continue
		}
		value, stop := values[i], " \n\x00"
		if framed {
			value, stop = escape(value), "\x00"
		} else if strings.HasSuffix(part, " value=") {
			stop = "\n\x00"
		}
		if strings.ContainsAny(value, stop) || framed && len(values[i]) > e.cfg.MaxValue {
			return nil, false
		}
		text = append(text, value...)
	}
	if !framed {
		return append(text, '\n'), len(text) < e.mostReply()
	}
	text = append(text, ';')
	copy(text, fmt.Sprintf("%*d", lengthSize, len(text)-lengthSize))
	return text, len(text)-lengthSize <= e.mostFrame()
}

func escape(value string) string { return strings.ReplaceAll(value, ";", ";;") }

// maxQuoted is how much of what a client said is repeated to the user, in bytes.
const maxQuoted = 64

// seen quotes what a client said, for the user.
func seen(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(text[:maxQuoted]) + "..."
	}
	return strconv.Quote(text)
}

// clean makes a text that fits any reply: short, and printable.
func clean(text string) string {
	if len(text) > maxQuoted {
		text = text[:maxQuoted]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '%' {
			return '?'
		}
		return r
	}, text)
}
