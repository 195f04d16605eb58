//go:build !race

package upgrade

const raced = false
