// Package ib has tests that need real verbs devices. They run on Soft-RoCE in the virtual machine of test/rdmavm
// (make test-ib). Tests that need no device are in the packages that they test.
package ib
