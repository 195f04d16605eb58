package lazy

// scale is a sample of the sizes of some tests. TestFullSize, which has the build tag soak, has more.
var scale = struct {
	messages  int // to each rank, where all send to all
	churn     int // the same, where few of the pairs can be connected
	schedules int
}{50, 20, 8}
