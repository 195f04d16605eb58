// Package ib has tests that need RDMA devices of the kernel. make test-ib runs them on Soft-RoCE, in the virtual
// machine of test/rdmavm. Tests that use the fake libibverbs of test/fakeverbs are in the packages that they test.
package ib
