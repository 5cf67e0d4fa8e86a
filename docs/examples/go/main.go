// Device memory from Go: cgo makes the calls, dlopen opens the library, and nothing is linked.
//
//	go build -o example . && ./example [libcushim.so.0]
//
// An error text belongs to the thread of the call, and goroutines move between threads, so the
// goroutine is locked to its thread for the call and the text.  It prints:
//
//	400 floats there and back
//	the second free: CUSHIM_DOUBLEFREE
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static int memory_alloc(void *f, size_t n, uint64_t *p) {
	return ((int (*)(void *, size_t, uint64_t *))f)(NULL, n, p);
}
static int memory_free(void *f, uint64_t p) {
	return ((int (*)(uint64_t))f)(p);
}
static int memory_h2d(void *f, uint64_t dst, const void *src, size_t n) {
	return ((int (*)(uint64_t, const void *, size_t))f)(dst, src, n);
}
static int memory_d2h(void *f, void *dst, uint64_t src, size_t n) {
	return ((int (*)(void *, uint64_t, size_t))f)(dst, src, n);
}
static const char *last_error(void *f) {
	return ((const char *(*)(void))f)();
}
static const char *status_name(void *f, int status) {
	return ((const char *(*)(int))f)(status);
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

const doubleFree = -11

// Library is the opened libcushim.
type Library struct {
	handle unsafe.Pointer
	names  map[string]unsafe.Pointer
}

// Error is a status and the library's text about it.
type Error struct {
	Status int
	Name   string
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Open opens the library and finds the functions that this program uses.
func Open(path string) (*Library, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	handle := C.dlopen(text, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, fmt.Errorf("%s", C.GoString(C.dlerror()))
	}
	l := &Library{handle, map[string]unsafe.Pointer{}}
	for _, name := range []string{"cushim_memory_alloc", "cushim_memory_free", "cushim_memory_h2d",
		"cushim_memory_d2h", "cushim_last_error", "cushim_status_name"} {
		word := C.CString(name)
		l.names[name] = C.dlsym(handle, word)
		C.free(unsafe.Pointer(word))
		if l.names[name] == nil {
			return nil, fmt.Errorf("%s has no %s", path, name)
		}
	}
	return l, nil
}

// try makes one call and, if it failed, reads the text in the thread that failed.
func (l *Library) try(call func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := call()
	if status == 0 {
		return nil
	}
	return &Error{int(status), C.GoString(C.status_name(l.names["cushim_status_name"], status)),
		C.GoString(C.last_error(l.names["cushim_last_error"]))}
}

// Alloc allocates device memory.
func (l *Library) Alloc(n int) (p uint64, err error) {
	var address C.uint64_t
	err = l.try(func() C.int { return C.memory_alloc(l.names["cushim_memory_alloc"], C.size_t(n), &address) })
	return uint64(address), err
}

// Free frees it.
func (l *Library) Free(p uint64) error {
	return l.try(func() C.int { return C.memory_free(l.names["cushim_memory_free"], C.uint64_t(p)) })
}

// Write copies a slice to the device.
func (l *Library) Write(p uint64, data []float32) error {
	return l.try(func() C.int {
		return C.memory_h2d(l.names["cushim_memory_h2d"], C.uint64_t(p), unsafe.Pointer(&data[0]), C.size_t(4*len(data)))
	})
}

// Read copies from the device into a slice.
func (l *Library) Read(data []float32, p uint64) error {
	return l.try(func() C.int {
		return C.memory_d2h(l.names["cushim_memory_d2h"], unsafe.Pointer(&data[0]), C.uint64_t(p), C.size_t(4*len(data)))
	})
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	path := "libcushim.so.0"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	library, err := Open(path)
	must(err)

	there, back := make([]float32, 400), make([]float32, 400)
	for i := range there {
		there[i] = float32(i) / 7
	}
	p, err := library.Alloc(4 * len(there))
	must(err)
	must(library.Write(p, there))
	must(library.Read(back, p))
	for i := range there {
		if back[i] != there[i] {
			must(fmt.Errorf("element %d is %g", i, back[i]))
		}
	}
	fmt.Println("400 floats there and back")

	must(library.Free(p))
	failure, is := library.Free(p).(*Error)
	if !is || failure.Status != doubleFree {
		must(fmt.Errorf("a second free was taken"))
	}
	fmt.Println("the second free:", failure.Name)
}
