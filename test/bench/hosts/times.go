package hosts

import (
	"bytes"
	"encoding/json"
	"fmt"

	"ibrun/bootstrap/timing"
)

// Times is what ibrun wrote of a launch by --timing --json, among the rest of its standard error.
func Times(said []byte) (s timing.Summary, err error) {
	at := bytes.Index(said, []byte(`{"nodes"`))
	if at < 0 {
		return s, fmt.Errorf("no line of times: %s", said)
	}
	return s, json.NewDecoder(bytes.NewReader(said[at:])).Decode(&s)
}
