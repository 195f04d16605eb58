//go:build cgo && !noib

package verbs

// #include "shim.h"
import "C"

import "unsafe"

// The compiler holds what Go writes down against shim.h: an index other
// than 0 does not compile.
var (
	_ = [1]int{}[unsafe.Sizeof(Send{})-C.sizeof_struct_ibrun_send]
	_ = [1]int{}[unsafe.Sizeof(Receive{})-C.sizeof_struct_ibrun_receive]
	_ = [1]int{}[unsafe.Sizeof(Completion{})-C.sizeof_struct_ibrun_completion]
	_ = [1]int{}[unsafe.Offsetof(Send{}.AH)-unsafe.Offsetof(C.struct_ibrun_send{}.route)]
	_ = [1]int{}[unsafe.Offsetof(Send{}.Op)-unsafe.Offsetof(C.struct_ibrun_send{}.opcode)]
	_ = [1]int{}[unsafe.Offsetof(Send{}.QKey)-unsafe.Offsetof(C.struct_ibrun_send{}.qkey)]
	_ = [1]int{}[unsafe.Offsetof(Receive{}.LKey)-unsafe.Offsetof(C.struct_ibrun_receive{}.lkey)]
	_ = [1]int{}[unsafe.Offsetof(Completion{}.Status)-unsafe.Offsetof(C.struct_ibrun_completion{}.status)]
	_ = [1]int{}[unsafe.Offsetof(Completion{}.Length)-unsafe.Offsetof(C.struct_ibrun_completion{}.length)]
	_ = [1]int{}[unsafe.Offsetof(Completion{}.Flags)-unsafe.Offsetof(C.struct_ibrun_completion{}.flags)]
	_ = [1]int{}[unsafe.Offsetof(Completion{}.LID)-unsafe.Offsetof(C.struct_ibrun_completion{}.lid)]
	_ = [1]int{}[unsafe.Offsetof(Completion{}.PathBits)-unsafe.Offsetof(C.struct_ibrun_completion{}.path_bits)]
)
