// The Go arm: a program that takes samples when told to, so that it can be interleaved with pools of another process.
// Protocol: see bench/README.md, "Programs in other languages".
// It is built by whatever Go is there, from 1.19 on: loop variables are copied, as before 1.22 all rounds share one.
package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The number of the processor (Go's worker) this goroutine is on; it stays there until procUnpin.
//
//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

const countMask = 1<<24 - 1

func token(i uint64) uint64 {
	x := (i + 1) * 0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x&^countMask | 1
}

var sink uint64

func spin(steps uint64) {
	x := steps
	for k := uint64(0); k < steps; k++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	if x == 1 {
		sink = x
	}
}

var epoch = time.Now()

func now() uint64 { return uint64(time.Since(epoch)) }

func usage() (cpu, system, switches uint64) {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return uint64(r.Utime.Nano() + r.Stime.Nano()), uint64(r.Stime.Nano()), uint64(r.Nvcsw + r.Nivcsw)
}

type line struct {
	word uint64
	_    [120]byte
}

// What the bodies of one sample share.
type run struct {
	_                     [128]byte
	word                  uint64
	_                     [120]byte
	target                uint64
	_                     [120]byte
	fast, slow, slowEvery uint64
	passed                uint32
	done                  chan struct{}
	slots                 []uint64
	own                   []line
}

func (r *run) hit(t uint64) {
	if atomic.AddUint64(&r.word, t)&countMask == atomic.LoadUint64(&r.target) {
		r.done <- struct{}{}
	}
}

// A futex word, as in the other arms: a channel would only switch goroutines, and no thread would sleep.
func futex(word *uint32, op uintptr, value uintptr) {
	const private = 128
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), op|private, value, 0, 0, 0)
}

func (r *run) post(t uint64) {
	atomic.AddUint64(&r.word, t)
	atomic.StoreUint32(&r.passed, 1)
	futex(&r.passed, 1, 1)
}

func (r *run) pass() {
	for !atomic.CompareAndSwapUint32(&r.passed, 1, 0) {
		futex(&r.passed, 0, 0)
	}
}

func (r *run) hitOwn(t uint64) {
	mine := &r.own[procPin()].word
	atomic.StoreUint64(mine, *mine+t)
	procUnpin()
}

func (r *run) ownSum() (sum uint64) {
	for i := range r.own {
		sum += atomic.LoadUint64(&r.own[i].word)
	}
	return
}

// Looks again when half of the time that seems to be left has passed, and no later than after a quarter of what has
// passed already.
func (r *run) waitOwn(tasks uint64) {
	start := now()
	for {
		ran := r.ownSum() & countMask
		if ran >= tasks {
			return
		}
		if ran == 0 {
			ran = 1
		}
		passed := float64(now() - start)
		left := math.Min(passed*float64(tasks-ran)/float64(ran)/2, passed/4)
		time.Sleep(time.Duration(math.Min(math.Max(left, 20e3), 5e6)))
	}
}

func (r *run) steps(i uint64) uint64 {
	if r.slowEvery != 0 && i%r.slowEvery == r.slowEvery-1 {
		return r.slow
	}
	return r.fast
}

func (r *run) grow(i, levels uint64, own bool) {
	if levels > 0 {
		for child := 4*i + 1; child < 4*i+5; child++ {
			child := child
			if own {
				go func() { r.grow(child, levels-1, true) }()
			} else {
				go func() { r.grow(child, levels-1, false) }()
			}
		}
	}
	if own {
		r.hitOwn(token(i))
	} else {
		r.hit(token(i))
	}
}

type request struct {
	kind                             string
	tasks, submitters, levels, walks uint64
	timed                            bool
}

func (r *run) submit(q *request, i uint64) {
	switch {
	case q.kind == "nested":
		first := q.tasks/5 + 4*i
		go func() {
			for child := first; child < first+4; child++ {
				child, t := child, token(child)
				go func() {
					_ = child
					r.hit(t)
				}()
			}
			r.hit(token(i))
		}()
	case q.kind == "deep":
		go func() { r.grow(0, q.levels, false) }()
	case q.kind == "deep_own":
		go func() { r.grow(0, q.levels, true) }()
	case q.timed:
		at := now()
		go func() {
			spin(r.steps(i))
			r.slots[i] = now() - at
			r.hit(token(i))
		}()
	case r.fast+r.slow > 0:
		t := token(i)
		go func() {
			spin(r.steps(i))
			r.hit(t)
		}()
	case q.kind == "flat_own":
		t := token(i)
		go func() {
			_ = i
			r.hitOwn(t)
		}()
	default:
		t := token(i)
		go func() {
			_ = i
			r.hit(t)
		}()
	}
}

func (q *request) countsOwn() bool { return q.kind == "deep_own" || q.kind == "flat_own" }

func (r *run) wait(q *request) {
	if q.countsOwn() {
		r.waitOwn(q.tasks)
	} else {
		<-r.done
	}
}

type sample struct{ wall, gap, cpu, system, switches, word uint64 }

func take(r *run, q *request) (out sample) {
	calls := q.tasks
	switch q.kind {
	case "nested":
		calls /= 5
	case "deep", "deep_own":
		calls = 1
	}
	phase := func(from, to uint64) {
		start := now()
		for i := from; i < to; i++ {
			r.submit(q, i)
		}
		r.wait(q)
		out.wall += now() - start
	}
	atomic.StoreUint64(&r.target, q.tasks)
	var cpu, system, switches uint64
	switch {
	case q.submitters > 1:
		var first atomic.Uint64
		first.Store(^uint64(0))
		var all sync.WaitGroup
		gate := make(chan struct{})
		each := q.tasks / q.submitters
		for n := uint64(0); n < q.submitters; n++ {
			n := n
			all.Add(1)
			go func() {
				defer all.Done()
				<-gate
				at := now()
				for seen := first.Load(); at < seen && !first.CompareAndSwap(seen, at); seen = first.Load() {
				}
				for i := n * each; i < (n+1)*each; i++ {
					r.submit(q, i)
				}
			}()
		}
		time.Sleep(time.Millisecond)
		cpu, system, switches = usage()
		close(gate)
		r.wait(q)
		out.wall = now() - first.Load()
		defer all.Wait()
	case q.kind == "serial":
		cpu, system, switches = usage()
		start := now()
		for i := uint64(0); i < calls; i++ {
			i, t := i, token(i)
			go func() {
				_ = i
				r.post(t)
			}()
			r.pass()
		}
		out.wall = now() - start
	case q.kind == "burst":
		cpu, system, switches = usage()
		atomic.StoreUint64(&r.target, calls/2)
		phase(0, calls/2)
		slept := now()
		time.Sleep(10 * time.Millisecond)
		out.gap = now() - slept
		atomic.StoreUint64(&r.target, calls)
		phase(calls/2, calls)
	default:
		cpu, system, switches = usage()
		phase(0, calls)
	}
	c, k, s := usage()
	out.cpu, out.system, out.switches = c-cpu, k-system, s-switches
	time.Sleep(time.Millisecond)
	out.word = atomic.LoadUint64(&r.word)
	if q.countsOwn() {
		out.word = r.ownSum()
	}
	return
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: peer WORKERS")
		os.Exit(2)
	}
	workers, err := strconv.Atoi(os.Args[1])
	if err != nil || workers < 1 {
		fmt.Fprintln(os.Stderr, "WORKERS must be a positive number")
		os.Exit(2)
	}
	runtime.GOMAXPROCS(workers)
	fmt.Printf("{\"ready\":\"go\",\"version\":%q}\n", runtime.Version())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var seq uint64
		var timed int
		var q request
		r := &run{done: make(chan struct{}, 1), own: make([]line, workers)}
		n, err := fmt.Sscanf(in.Text(), "run %d %s %d %d %d %d %d %d %d %d", &seq, &q.kind, &q.tasks, &q.submitters, &q.levels, &q.walks,
			&r.fast, &r.slow, &r.slowEvery, &timed)
		if n != 10 {
			fmt.Fprintln(os.Stderr, "not a request:", in.Text(), err)
			os.Exit(2)
		}
		if q.timed = timed != 0; q.timed {
			r.slots = make([]uint64, q.tasks)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := take(r, &q)
		runtime.ReadMemStats(&after)
		latency := "null"
		if q.timed {
			sort.Slice(r.slots, func(a, b int) bool { return r.slots[a] < r.slots[b] })
			at := func(p uint64) uint64 { return r.slots[(q.tasks*p+99)/100-1] }
			latency = fmt.Sprintf("[%d,%d,%d,%d]", at(50), at(95), at(99), at(100))
		}
		fmt.Printf("{\"seq\":%d,\"wall_ns\":%d,\"gap_ns\":%d,\"cpu_ns\":%d,\"system_ns\":%d,\"switches\":%d,\"word\":%d,\"allocations\":%d,\"latency\":%s}\n",
			seq, s.wall, s.gap, s.cpu, s.system, s.switches, s.word, after.Mallocs-before.Mallocs, latency)
	}
}
