package fake_test

import (
	"testing"

	"github.com/privgrad/privgrad/internal/cuda/driver"
	"github.com/privgrad/privgrad/internal/cuda/driver/drivertest"
	"github.com/privgrad/privgrad/internal/cuda/driver/fake"
)

const workspace = 1 << 12

// handle is the library's, on a rig's stream, with a product of n×n by n×1.
func handle(t *testing.T, o fake.Options, n int) (*drivertest.Rig, driver.Products, driver.Product, driver.Ptr) {
	t.Helper()
	r, _ := rig(t, o)
	at := drivertest.Got(r.Context.Alloc(workspace))(t)
	h := drivertest.Got(r.Context.(*fake.Context).NewProducts(r.Stream, at, workspace))(t)
	a := make([]float32, n*n)
	for i := range a {
		a[i] = 1 / float32(i%n+3)
	}
	return r, h, driver.Product{M: n, N: 1, K: n, A: r.Floats(a...), B: r.Floats(a[:n]...), C: r.Floats(make([]float32, n)...), RowA: n, RowB: 1, RowC: 1}, at
}

func blasFails(t *testing.T, err error, code int) {
	t.Helper()
	e, ok := err.(*driver.Error)
	if !ok || e.Code != code {
		t.Errorf("got %v, want code %d", err, code)
	}
}

// The library's rules, as strictly as they may be read.
func TestBLASRules(t *testing.T) {
	r, h, p, at := handle(t, fake.Options{}, 3)
	// Code is loaded with the first call of a shape, which a capture does not allow.
	_, err := r.Stream.Capture(func() error { return h.Multiply(p) })
	blasFails(t, err, 13)
	r.OK(h.Multiply(p))
	r.OK((drivertest.Got(r.Stream.Capture(func() error { return h.Multiply(p) }))(t)).Close())
	other := p
	other.Add = true
	_, err = r.Stream.Capture(func() error { return h.Multiply(other) })
	blasFails(t, err, 13)
	// Setting a stream takes the workspace away, and captures need one.
	raw := h.(*fake.Handle)
	r.OK(raw.SetStream(r.Stream.(*fake.Stream)))
	_, err = r.Stream.Capture(func() error { return h.Multiply(p) })
	blasFails(t, err, 13)
	blasFails(t, raw.SetWorkspace(at+4, 8), 7)
	blasFails(t, raw.SetWorkspace(at, 2*workspace), 7)
	r.OK(raw.SetWorkspace(at, workspace))
	// Another goroutine has no context.
	done := make(chan error)
	go func() { done <- h.Multiply(p) }()
	blasFails(t, <-done, driver.InvalidContext)
	// Handles are made and destroyed outside captures.
	_, err = r.Stream.Capture(func() error { return h.Close() })
	blasFails(t, err, driver.StreamCaptureForbid)
	// The workspace is used when the product is done.
	r.OK(h.Multiply(p))
	r.OK(r.Context.Free(at))
	r.Fails(r.Stream.Sync(), 700)
}

// A product is done late, and leaves its workspace full of what is no number.
func TestBLASWorkspaceIsItsOwn(t *testing.T) {
	r, h, p, at := handle(t, fake.Options{}, 3)
	r.OK(r.Context.CopyIn(at, make([]byte, workspace)))
	r.OK(h.Multiply(p))
	r.Holds(p.C, 0, 0, 0)
	r.OK(r.Stream.Sync())
	if x := r.Read(at, 1)[0]; x == x {
		t.Errorf("the workspace holds %v", x)
	}
}

// What the library may do and must not be relied upon: orders that differ between
// rows; and what only a careless handle does: fewer bits.
func TestBLASFaults(t *testing.T) {
	const n = 40
	alike := func(o fake.Options) bool {
		r, h, p, _ := handle(t, o, n)
		r.OK(h.Multiply(p))
		r.OK(r.Stream.Sync())
		y := r.Read(p.C, n)
		for _, x := range y {
			if x != y[0] {
				return false
			}
		}
		return true
	}
	if !alike(fake.Options{}) || alike(fake.Options{BLAS: fake.BLAS{RowOrder: true}}) {
		t.Error("rows are added up alike in every order, or differ in one")
	}
	for _, reduced := range []bool{false, true} {
		r, h, p, _ := handle(t, fake.Options{BLAS: fake.BLAS{Reduced: reduced}}, 1)
		r.OK(r.Context.CopyIn(p.A, []byte{1, 0, 128, 63})) // 1+2⁻²³
		r.OK(r.Context.CopyIn(p.B, []byte{0, 0, 128, 63})) // 1
		r.OK(h.Multiply(p))
		r.OK(r.Stream.Sync())
		if got := r.Read(p.C, 1)[0]; (got != 1+0x1p-23) != reduced {
			t.Errorf("reduced %v: got %v", reduced, got)
		}
	}
	r, _ := rig(t, fake.Options{BLAS: fake.BLAS{Absent: true}})
	if _, err := r.Context.(*fake.Context).NewProducts(r.Stream, 256, 8); err == nil {
		t.Error("a library that is absent makes a handle")
	}
}
