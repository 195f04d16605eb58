package native

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// checks say whether a value is one that a keyword takes. ssh judges the others.
var checks = map[string]func(string) bool{
	"port":                  func(v string) bool { n := number(v); return n > 0 && n < 1<<16 },
	"requiredrsasize":       func(v string) bool { return number(v) > 0 },
	"serveralivecountmax":   func(v string) bool { return number(v) > 0 },
	"connectionattempts":    func(v string) bool { return number(v) > 0 },
	"connecttimeout":        func(v string) bool { return v == "none" || parseSeconds(v) > 0 },
	"addressfamily":         func(v string) bool { return networks[strings.ToLower(v)] != "" },
	"stricthostkeychecking": func(v string) bool { _, ok := strictness[strings.ToLower(v)]; return ok },
}

var strictness = map[string]Strict{
	"yes": Refuse, "true": Refuse, "ask": Refuse, "accept-new": Accept, "no": Off, "off": Off, "false": Off,
}

var networks = map[string]string{"any": "tcp", "inet": "tcp4", "inet6": "tcp6"}

// number reads a decimal number; 0: it is none.
func number(v string) int {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

const week = 7 * 24 * time.Hour

// parseSeconds parses a time such as 90 or 1m30s (sshd_config(5), "TIME FORMATS"). It returns 0 if v is malformed.
func parseSeconds(v string) time.Duration {
	total, n := time.Duration(0), ""
	for _, c := range v + "s" {
		unit := map[rune]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
			'w': week}[c|0x20]
		switch {
		case c >= '0' && c <= '9':
			n += string(c)
		case unit == 0 || len(n) > 4 && unit > time.Second || len(n) > 9 || total > 100*week:
			return 0
		case n != "":
			total += time.Duration(number(n)) * unit
			n = ""
		}
	}
	return total
}

// size reads a number of bytes with K, M or G behind it; "default" is 0.
func size(v string) (uint64, error) {
	if v == "default" {
		return 0, nil
	}
	digits := strings.TrimRight(v, "kKmMgG")
	shift := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30}
	by, ok := shift[strings.ToUpper(v[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || !ok || n == 0 || n<<by > math.MaxInt64 {
		return 0, fmt.Errorf("%s is no size", v)
	}
	return n << by, nil
}
