//go:build soak

package lazy

import "testing"

// TestFullSize runs the tests that are samples without the build tag soak.
func TestFullSize(t *testing.T) {
	scale.messages, scale.churn, *schedules = 400, 200, 1000
	for name, test := range map[string]func(*testing.T){
		"Bursts": TestBursts, "Churn": TestChurn, "MessagesArriveOnceInOrder": TestMessagesArriveOnceInOrder,
		"NetworkSchedules": TestNetworkSchedules, "Schedules": TestSchedules,
	} {
		t.Run(name, test)
	}
}
