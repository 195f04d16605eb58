package native

import "strings"

// commandLine represents parsed options of ssh.
type commandLine struct {
	lines []string // lines of ssh_config(5), which precede those of the configuration files
	file  string   // configuration file that replaces the default ones, or empty
}

// These constants list the letters of ssh's options that take a value (ssh(1)). This package implements the options in
// withValue. Only the program ssh implements the options in foreignWithValue.
const (
	withValue        = "ipbcmoFl"
	foreignWithValue = "BDEeIJLOPQRSWw"
)

// optionKeys maps the letters of ssh options to the keywords of ssh_config(5) that have the same effect.
var optionKeys = map[byte]string{'i': "IdentityFile", 'p': "Port", 'b': "BindAddress", 'c': "Ciphers", 'm': "MACs",
	'J': "ProxyJump", 'S': "ControlPath"}

// options reads arguments as ssh's command line has them before the host.
func (r *reader) options(args []string) (c commandLine, err error) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if len(a) < 2 || a[0] != '-' || a == "--" {
			return c, &Unfit{"--ssh-args", a}
		}
		letter, value := a[1], a[2:]
		if strings.IndexByte(withValue, letter) < 0 && !(r.lax && strings.IndexByte(foreignWithValue, letter) >= 0) {
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
		switch key := optionKeys[letter]; {
		case letter == 'o':
			c.lines = append(c.lines, value)
		case letter == 'F':
			c.file = value
		case letter == 'l' && r.user == "":
			r.user = value
		case key != "":
			c.lines = append(c.lines, key+` "`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value)+`"`)
		}
	}
	return c, nil
}
