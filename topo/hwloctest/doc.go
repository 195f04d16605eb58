// Package hwloctest holds package topo against hwloc, which reads the same
// trees in its own way: captures of real machines and made-up ones. It is for
// tests, and decides nothing about which of the two is right.
package hwloctest
