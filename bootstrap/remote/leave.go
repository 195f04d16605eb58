package remote

import (
	"errors"
	"fmt"
)

// errSSH is in what dial returns where the user's ssh has to make the session.
var errSSH = errors.New("native ssh leaves it to ssh")

// leave gives a host to the user's ssh and says so, each reason once; or says
// why not, when the user wants native ssh.
func (s *Starter) leave(t Target, why error) error {
	if s.how.SSH == "native" {
		return &Error{Host: t.Host, Phase: Resolve, Cause: "native ssh cannot do what is configured: " + why.Error(),
			Hint: "leave --ssh native out"}
	}
	s.notifyOnce(why.Error(), fmt.Sprintf("native ssh leaves %s to ssh: %v", t.Host, why))
	return fmt.Errorf("%w: %w", errSSH, why)
}
