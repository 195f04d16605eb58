package native

import "strings"

// commandLine is what options of ssh come to: lines before those of any file,
// and the file that is read instead of the usual ones.
type commandLine struct {
	lines []string
	file  string
}

// foreignWithValue are options with a value that only ssh itself can do (ssh(1)),
// foreignKeys the keywords of those that Between looks for.
const foreignWithValue = "BDEeIJLOPQRSWw"

var foreignKeys = map[byte]string{'J': "ProxyJump", 'S': "ControlPath"}

// options reads arguments as ssh's command line has them before the host.
func (r *reader) options(args []string) (c commandLine, err error) {
	keys := map[byte]string{'i': "IdentityFile", 'p': "Port", 'b': "BindAddress", 'c': "Ciphers", 'm': "MACs"}
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if len(a) < 2 || a[0] != '-' || a == "--" {
			return c, &Unfit{"--ssh-args", a}
		}
		letter, value := a[1], a[2:]
		if r.lax && strings.IndexByte(foreignWithValue, letter) >= 0 {
			if value == "" && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			if key := foreignKeys[letter]; key != "" {
				c.lines = append(c.lines, key+" "+value)
			}
			continue
		}
		if strings.IndexByte("ipbcmoFl", letter) < 0 {
			// Letters without a value may stand together.
			for _, l := range a[1:] {
				switch l {
				case '4':
					c.lines = append(c.lines, "AddressFamily inet")
				case '6':
					c.lines = append(c.lines, "AddressFamily inet6")
				case 'a', 'C', 'q', 'T', 'x':
				default:
					if !r.lax {
						return c, &Unfit{"--ssh-args", a}
					}
				}
			}
			continue
		}
		if value == "" {
			if len(args) == 0 {
				return c, &Unfit{"--ssh-args", a + " without a value"}
			}
			value, args = args[0], args[1:]
		}
		switch letter {
		case 'o':
			c.lines = append(c.lines, value)
		case 'F':
			c.file = value
		case 'l':
			if r.user == "" {
				r.user = value
			}
		default:
			c.lines = append(c.lines, keys[letter]+` "`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value)+`"`)
		}
	}
	return c, nil
}
