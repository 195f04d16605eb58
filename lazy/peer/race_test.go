//go:build race

package peer

const raced = true
