// Package ibrun will be what an application imports: rank, size, send, receive, collectives. So far it holds the rules of
// the house, in policy_test.go.
//
// It refuses to start processes: that is the ibrun command's.
package ibrun
